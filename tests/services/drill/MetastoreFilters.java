import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.drill.common.config.DrillConfig;
import org.apache.drill.metastore.MetastoreColumn;
import org.apache.drill.metastore.MetastoreRegistry;
import org.apache.drill.metastore.components.tables.TableMetadataUnit;
import org.apache.drill.metastore.expressions.FilterExpression;
import org.apache.drill.metastore.metadata.MetadataType;

/** Prints, for each filter over the owner of tables, the names of the tables that Drill's metastore finds by it. */
class MetastoreFilters {
  public static void main(String[] arguments) throws Exception {
    var owner = MetastoreColumn.OWNER;
    Map<String, FilterExpression> filters = new TreeMap<>();
    filters.put("owner = 'a'", FilterExpression.equal(owner, "a"));
    filters.put("owner != 'a'", FilterExpression.notEqual(owner, "a"));
    filters.put("NOT owner = 'a'", FilterExpression.not(FilterExpression.equal(owner, "a")));
    filters.put("NOT owner != 'a'", FilterExpression.not(FilterExpression.notEqual(owner, "a")));
    filters.put("owner IN ('a', 'c')", FilterExpression.in(owner, List.of("a", "c")));
    filters.put("owner NOT IN ('a', 'c')", FilterExpression.notIn(owner, List.of("a", "c")));
    filters.put("NOT owner IN ('a', 'c')", FilterExpression.not(FilterExpression.in(owner, List.of("a", "c"))));
    filters.put("owner NOT IN ('a')", FilterExpression.notIn(owner, List.of("a")));
    filters.put("owner < 'b'", FilterExpression.lessThan(owner, "b"));
    filters.put("owner <= 'b'", FilterExpression.lessThanOrEqual(owner, "b"));
    filters.put("owner > 'a'", FilterExpression.greaterThan(owner, "a"));
    filters.put("NOT owner < 'b'", FilterExpression.not(FilterExpression.lessThan(owner, "b")));
    filters.put("NOT owner > 'a'", FilterExpression.not(FilterExpression.greaterThan(owner, "a")));
    filters.put("owner IS NULL", FilterExpression.isNull(owner));
    filters.put("owner IS NOT NULL", FilterExpression.isNotNull(owner));
    filters.put("NOT owner IS NULL", FilterExpression.not(FilterExpression.isNull(owner)));
    filters.put("owner != 'a' AND owner != 'b'",
        FilterExpression.and(FilterExpression.notEqual(owner, "a"), FilterExpression.notEqual(owner, "b")));
    filters.put("NOT (owner = 'a' OR owner = 'b')", FilterExpression.not(
        FilterExpression.or(FilterExpression.equal(owner, "a"), FilterExpression.equal(owner, "b"))));
    var registry = new MetastoreRegistry(DrillConfig.create());
    var metastore = registry.get();
    for (var filter : filters.entrySet()) {
      var found = metastore.tables().read().metadataType(MetadataType.TABLE).filter(filter.getValue()).execute();
      System.out.println("FOUND\t" + filter.getKey() + "\t"
          + found.stream().map(TableMetadataUnit::tableName).sorted().collect(Collectors.joining(",")));
    }
    registry.close();
  }
}
