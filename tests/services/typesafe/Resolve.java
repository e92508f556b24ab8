import com.typesafe.config.Config;
import com.typesafe.config.ConfigException;
import com.typesafe.config.ConfigFactory;
import com.typesafe.config.ConfigRenderOptions;
import com.typesafe.config.ConfigResolveOptions;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;

/** For each line of files, lowest tier first, with tabs between: their merged and resolved values as JSON, or "error". */
public class Resolve {
  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      System.out.println(answer(line.split("\t")));
    }
  }

  private static String answer(String[] files) {
    try {
      Config merged = ConfigFactory.empty();
      for (String file : files) {
        merged = ConfigFactory.parseFile(new File(file)).withFallback(merged);
      }
      return merged.resolve(ConfigResolveOptions.noSystem()).root().render(ConfigRenderOptions.concise());
    } catch (ConfigException | StackOverflowError error) {
      return "\"error: " + error.getClass().getSimpleName() + "\"";
    }
  }
}
