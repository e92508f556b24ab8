import java.net.InetAddress;
import java.net.ServerSocket;
import org.apache.drill.common.config.DrillConfig;
import org.apache.drill.exec.server.Drillbit;
import org.apache.drill.exec.server.RemoteServiceSet;

/**
 * A Drillbit on its own, configured by the files on the class path. The argument is a port that is listened on when it
 * answers queries.
 */
class DrillServer {
  public static void main(String[] arguments) throws Exception {
    new Drillbit(DrillConfig.create(), RemoteServiceSet.getLocalServiceSet()).run();
    try (var ready = new ServerSocket(Integer.parseInt(arguments[0]), 1, InetAddress.getLoopbackAddress())) {
      while (true) {
        ready.accept().close();
      }
    }
  }
}
