import java.net.InetAddress;
import java.net.ServerSocket;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/**
 * A namenode and a datanode on loopback. Arguments are the ports of RPC and HTTP, one that is listened on when all is
 * ready, and a folder.
 */
class HdfsServer {
  public static void main(String[] arguments) throws Exception {
    var settings = new Configuration();
    settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, arguments[3]);
    // A file is complete when its datanode has told of it; who asks too early waits for this long.
    settings.setInt("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", 5);
    new MiniDFSCluster.Builder(settings)
        .nameNodePort(Integer.parseInt(arguments[0]))
        .nameNodeHttpPort(Integer.parseInt(arguments[1]))
        .numDataNodes(1)
        .build()
        .waitActive();
    try (var ready = new ServerSocket(Integer.parseInt(arguments[2]), 1, InetAddress.getLoopbackAddress())) {
      while (true) {
        ready.accept().close();
      }
    }
  }
}
