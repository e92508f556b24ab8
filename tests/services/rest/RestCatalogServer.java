import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.apache.hadoop.conf.Configuration;

/** Iceberg's own REST catalog over its JDBC catalog, on loopback: arguments are the port and a folder of its own. */
class RestCatalogServer {
  public static void main(String[] arguments) throws Exception {
    var folder = arguments[1];
    var properties = Map.of(
        "uri", "jdbc:sqlite:" + folder + "/catalog.db",
        "warehouse", folder + "/warehouse",
        "jdbc.schema-version", "V1",
        "clients", "1"); // SQLite has one writer at a time
    var catalog = CatalogUtil.loadCatalog(JdbcCatalog.class.getName(), "rest", properties, new Configuration());
    var server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
    var context = new ServletContextHandler();
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    server.setHandler(context);
    server.start();
    server.join();
  }
}
