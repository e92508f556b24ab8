import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.typesafe.config.ConfigFactory;
import com.typesafe.config.ConfigValueFactory;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.drill.common.config.DrillConfig;
import org.apache.drill.metastore.MetastoreColumn;
import org.apache.drill.metastore.components.tables.TableMetadataUnit;
import org.apache.drill.metastore.expressions.FilterExpression;
import org.apache.drill.metastore.iceberg.IcebergMetastore;
import org.apache.drill.metastore.iceberg.config.IcebergConfigConstants;
import org.apache.drill.metastore.metadata.MetadataType;

/**
 * Drill's Iceberg metastore behind standard streams: one JSON command a line, one JSON answer a line.
 *
 * <p>{@code open} a metastore below a folder, {@code load} units from a file of JSON lines, {@code commit} them in one
 * transaction, {@code list} all tables with their times, read all units of one {@code table}.
 */
public final class Peer {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, MethodHandle> SETTERS = TableMetadataUnit.SCHEMA.unitBuilderSetters();

  private IcebergMetastore metastore;
  private List<TableMetadataUnit> loaded = List.of();

  public static void main(String[] arguments) throws Throwable {
    PrintStream answers = System.out;
    System.setOut(System.err);
    Peer peer = new Peer();
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      answers.println(JSON.writeValueAsString(peer.answer(JSON.readTree(line))));
      answers.flush();
    }
  }

  private Object answer(JsonNode command) throws Throwable {
    switch (command.get("do").asText()) {
      case "open":
        metastore = new IcebergMetastore(new DrillConfig(ConfigFactory.empty()
            .withValue(IcebergConfigConstants.BASE_PATH, value(command.get("folder").asText()))
            .withValue(IcebergConfigConstants.RELATIVE_PATH, value("drill"))
            .withValue(IcebergConfigConstants.COMPONENTS_TABLES_LOCATION, value("tables"))
            .withValue(IcebergConfigConstants.COMPONENTS_VIEWS_LOCATION, value("views"))));
        return true;
      case "load":
        loaded = units(Path.of(command.get("file").asText()));
        return loaded.size();
      case "commit":
        metastore.tables().modify().overwrite(loaded).execute();
        return loaded.size();
      case "list":
        return metastore.tables().read().metadataType(MetadataType.TABLE)
            .columns(MetastoreColumn.STORAGE_PLUGIN, MetastoreColumn.WORKSPACE, MetastoreColumn.TABLE_NAME,
                MetastoreColumn.LAST_MODIFIED_TIME)
            .execute().stream()
            .map(unit -> List.of(unit.storagePlugin(), unit.workspace(), unit.tableName(), unit.lastModifiedTime()))
            .collect(Collectors.toList());
      case "table":
        return metastore.tables().read().metadataType(MetadataType.ALL)
            .filter(FilterExpression.and(
                FilterExpression.equal(MetastoreColumn.STORAGE_PLUGIN, command.get("plugin").asText()),
                FilterExpression.equal(MetastoreColumn.WORKSPACE, command.get("workspace").asText()),
                FilterExpression.equal(MetastoreColumn.TABLE_NAME, command.get("name").asText())))
            .execute().size();
      default:
        throw new IllegalArgumentException("no such command: " + command);
    }
  }

  private static com.typesafe.config.ConfigValue value(String text) {
    return ConfigValueFactory.fromAnyRef(text);
  }

  private static List<TableMetadataUnit> units(Path file) throws Throwable {
    List<TableMetadataUnit> units = new ArrayList<>();
    for (String line : Files.readAllLines(file)) {
      TableMetadataUnit.Builder builder = TableMetadataUnit.builder();
      for (Iterator<Map.Entry<String, JsonNode>> fields = JSON.readTree(line).fields(); fields.hasNext(); ) {
        Map.Entry<String, JsonNode> field = fields.next();
        MethodHandle setter = SETTERS.get(field.getKey());
        if (setter != null && !field.getValue().isNull()) {
          Object argument = field.getKey().equals("hostAffinity")
              ? JSON.convertValue(field.getValue(), new TypeReference<Map<String, Float>>() { })
              : JSON.convertValue(field.getValue(), setter.type().parameterType(1));
          setter.invokeWithArguments(builder, argument);
        }
      }
      units.add(builder.build());
    }
    return units;
  }
}
