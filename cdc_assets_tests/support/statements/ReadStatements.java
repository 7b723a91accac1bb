package cdc_assets;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.antlr.AntlrDdlParser;
import io.debezium.config.Configuration;
import io.debezium.connector.binlog.BinlogConnectorConfig;
import io.debezium.connector.binlog.charset.BinlogCharsetRegistry;
import io.debezium.document.DocumentWriter;
import io.debezium.jdbc.JdbcValueConverters;
import io.debezium.relational.Column;
import io.debezium.relational.Table;
import io.debezium.relational.TableId;
import io.debezium.relational.Tables;
import io.debezium.relational.ValueConverter;
import io.debezium.relational.history.JsonTableChangeSerializer;
import io.debezium.relational.history.TableChanges;
import io.debezium.service.spi.ServiceProvider;
import io.debezium.service.spi.ServiceRegistry;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.Year;
import java.time.ZoneOffset;
import java.time.temporal.Temporal;
import java.time.temporal.TemporalAdjuster;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;

/**
 * What a pinned connector makes of DDL: its own parser's model of each table, and what its own converters make of values by it.
 *
 * A line of JSON for each history of a database:
 *   {"database": d, "charset": the server's, "steps": [{"statements": [[sql, database or ""]], "tables": {name: SHOW CREATE TABLE behind it}}]}
 * and one back:
 *   {"steps": [{"stops": text or null, "tables": {name: {"model": a table of a schema history, "bends": [text]}}, "also": [name]}]}
 * `bends`: in what its values differ from those by the model that a snapshot behind the step makes. `also`: tables of the model
 * that are not there. Behind a step that stops or bends, the next begins with the snapshot's models.
 */
public final class ReadStatements {
    private static final Tables.TableFilter ALL = new Tables.TableFilter() {
        public boolean isIncluded(TableId table) {
            return true;
        }
    };
    private final ObjectMapper json = new ObjectMapper();
    private final DocumentWriter writer;
    private final String prefix;
    private final BinlogConnectorConfig config;
    private final JdbcValueConverters converters;

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        ObjectMapper json = new ObjectMapper();
        ReadStatements reader = new ReadStatements(args[0], args[1], json.readTree(in.readLine()));
        String line;
        while ((line = in.readLine()) != null) {
            out.println(json.writeValueAsString(reader.read(json.readTree(line))));
            out.flush();
        }
    }

    private ReadStatements(String folder, String prefix, JsonNode settings) throws Exception {
        this.prefix = "io.debezium.connector." + folder + "." ;
        Properties properties = new Properties();
        Iterator entries = settings.fields();
        while (entries.hasNext()) {
            Map.Entry entry = (Map.Entry) entries.next();
            properties.setProperty((String) entry.getKey(), ((JsonNode) entry.getValue()).asText());
        }
        // Its compiler calls no static method of an interface.
        Configuration configuration = (Configuration) Configuration.class
            .getMethod("from", new Class[] {Properties.class}).invoke(null, new Object[] {properties});
        this.config = (BinlogConnectorConfig) Class.forName(this.prefix + prefix + "ConnectorConfig")
            .getConstructor(new Class[] {Configuration.class}).newInstance(new Object[] {configuration});
        ServiceRegistry services = this.config.getServiceRegistry();
        services.registerServiceProvider((ServiceProvider) Class.forName(
            this.prefix + "charset." + prefix + "CharsetRegistryServiceProvider").getConstructor(new Class[0]).newInstance(new Object[0]));
        TemporalAdjuster asItIs = new TemporalAdjuster() {
            public Temporal adjustInto(Temporal temporal) {
                return temporal;
            }
        };
        Constructor make = Class.forName(this.prefix + "jdbc." + prefix + "ValueConverters").getConstructors()[0];
        this.converters = (JdbcValueConverters) make.newInstance(new Object[] {
            this.config.getDecimalMode(), this.config.getTemporalPrecisionMode(),
            this.config.getBigIntUnsignedHandlingMode().asBigIntUnsignedMode(), this.config.binaryHandlingMode(), asItIs,
            this.config.getEventConvertingFailureHandlingMode(), services});
        this.writer = (DocumentWriter) DocumentWriter.class.getMethod("defaultWriter", new Class[0]).invoke(null, new Object[0]);
        this.parserClass = Class.forName(this.prefix + "antlr." + prefix + "AntlrDdlParser");
    }

    private final Class parserClass;

    /** As the connector's schema makes it: comments are read where the history has them, views are not. */
    private AntlrDdlParser parser(String charset) throws Exception {
        BinlogCharsetRegistry charsets = (BinlogCharsetRegistry) this.config.getServiceRegistry().getService(BinlogCharsetRegistry.class);
        Constructor[] all = this.parserClass.getConstructors();
        Constructor longest = all[0];
        for (int i = 1; i < all.length; i++) {
            if (all[i].getParameterTypes().length > longest.getParameterTypes().length) {
                longest = all[i];
            }
        }
        AntlrDdlParser parser = (AntlrDdlParser) longest.newInstance(
            new Object[] {Boolean.TRUE, Boolean.FALSE, Boolean.TRUE, ALL, charsets});
        parser.parse("SET character_set_server=" + charset + ";", new Tables());
        return parser;
    }

    private ObjectNode read(JsonNode history) throws Exception {
        String database = history.get("database").asText();
        String charset = history.get("charset").asText();
        String own = history.has("own") ? history.get("own").asText() : charset;
        AntlrDdlParser parser = null;
        Tables tables = null;
        ObjectNode told = this.json.createObjectNode();
        ArrayNode steps = told.putArray("steps");
        JsonNode before = history.get("before");
        if (before != null) {
            parser = begin(database, charset, own);
            tables = new Tables();
            told.put("unread", snapshot(parser, tables, before));
        }
        Iterator each = history.get("steps").elements();
        while (each.hasNext()) {
            JsonNode step = (JsonNode) each.next();
            if (parser == null) {
                parser = begin(database, charset, own);
                tables = new Tables();
            }
            ObjectNode answer = steps.addObject();
            String stops = null;
            Iterator statements = step.get("statements").elements();
            while (statements.hasNext() && stops == null) {
                JsonNode statement = (JsonNode) statements.next();
                stops = parse(parser, tables, ((JsonNode) statement.get(0)).asText(), ((JsonNode) statement.get(1)).asText());
            }
            answer.put("stops", stops);
            Tables server = new Tables();
            AntlrDdlParser fresh = begin(database, charset, own);
            answer.put("unread", snapshot(fresh, server, step.get("tables")));
            boolean sound = stops == null;
            ObjectNode found = answer.putObject("tables");
            Iterator names = step.get("tables").fieldNames();
            while (names.hasNext()) {
                String name = (String) names.next();
                TableId id = new TableId(database, null, name);
                Table there = server.forTable(id);
                Table held = tables.forTable(id);
                ObjectNode entry = found.putObject(name);
                entry.set("model", held == null ? null : model(held));
                entry.set("snapshot", there == null ? null : model(there));
                ArrayNode bends = entry.putArray("bends");
                if (held != null && there != null) {
                    compare(held, there, bends);
                }
                sound = sound && held != null && there != null && bends.size() == 0;
            }
            ArrayNode also = answer.putArray("also");
            Iterator ids = tables.tableIds().iterator();
            while (ids.hasNext()) {
                TableId id = (TableId) ids.next();
                if (id.catalog().equals(database) && !step.get("tables").has(id.table())) {
                    also.add(id.table());
                    sound = false;
                }
            }
            if (!sound) {
                parser = fresh;
                tables = server;
            }
        }
        return told;
    }

    private AntlrDdlParser begin(String database, String charset, String own) throws Exception {
        AntlrDdlParser parser = parser(charset);
        Tables none = new Tables();
        parser.parse("CREATE DATABASE IF NOT EXISTS `" + database + "` CHARSET " + own, none);
        parser.parse("USE `" + database + "`", none);
        parser.setCurrentDatabase(database);
        return parser;
    }

    /** As a snapshot reads definitions; the first that it cannot. */
    private String snapshot(AntlrDdlParser parser, Tables tables, JsonNode definitions) {
        String unread = null;
        Iterator all = definitions.elements();
        while (all.hasNext()) {
            String stops = parse(parser, tables, ((JsonNode) all.next()).asText(), "");
            unread = unread == null ? stops : unread;
        }
        return unread;
    }

    private String parse(AntlrDdlParser parser, Tables tables, String sql, String database) {
        try {
            if (database.length() > 0) {
                parser.setCurrentDatabase(database);
            }
            parser.parse(sql, tables);
            return null;
        }
        catch (Throwable failed) {
            String text = String.valueOf(failed.getMessage());
            return failed.getClass().getSimpleName() + ": " + (text.length() > 400 ? text.substring(0, 400) : text);
        }
    }

    private JsonNode model(Table table) throws Exception {
        TableChanges.TableChange change = new TableChanges.TableChange(TableChanges.TableChangeType.CREATE, table);
        return this.json.readTree(
            this.writer.write(new JsonTableChangeSerializer().toDocument(change))).get("table");
    }

    private void compare(Table held, Table there, ArrayNode bends) {
        List modelled = held.columns();
        List columns = there.columns();
        if (modelled.size() != columns.size()) {
            bends.add(modelled.size() + " columns, not " + columns.size());
            return;
        }
        for (int i = 0; i < columns.size(); i++) {
            Column one = (Column) modelled.get(i);
            Column other = (Column) columns.get(i);
            if (!one.name().equalsIgnoreCase(other.name())) {
                bends.add("column " + (i + 1) + " is " + one.name() + ", not " + other.name());
                continue;
            }
            if (other.isOptional() && !one.isOptional()) {
                bends.add(one.name() + ": it takes NULL");
            }
            String mine = values(one, other);
            String theirs = values(other, other);
            if (!mine.equals(theirs)) {
                bends.add(one.name() + ": " + mine + ", not " + theirs);
            }
        }
    }

    /** What the connector sends by this model of what the binlog holds of a column of the server's. */
    private String values(Column column, Column there) {
        StringBuilder text = new StringBuilder();
        Object[] samples = samples(there);
        try {
            SchemaBuilder builder = this.converters.schemaBuilder(column);
            if (builder == null) {
                return "nothing";
            }
            Schema schema = builder.optional().build();
            ValueConverter converter = this.converters.converter(column, new Field(column.name(), 0, schema));
            for (int i = 0; i < samples.length; i++) {
                text.append(i == 0 ? "" : "; ").append(one(converter, samples[i]));
            }
        }
        catch (Throwable failed) {
            text.append(failed.getClass().getSimpleName());
        }
        return text.toString();
    }

    private String one(ValueConverter converter, Object sample) {
        try {
            return show(converter.convert(sample));
        }
        catch (Throwable failed) {
            return failed.getClass().getSimpleName();
        }
    }

    private String show(Object value) {
        if (value instanceof byte[]) {
            return Arrays.toString((byte[]) value);
        }
        if (value instanceof ByteBuffer) {
            return Arrays.toString(((ByteBuffer) value).array());
        }
        // A number that is sent as a text is another value.
        if (value instanceof String) {
            return "'" + value + "'";
        }
        if (value instanceof Struct) {
            StringBuilder text = new StringBuilder();
            Iterator fields = ((Struct) value).schema().fields().iterator();
            while (fields.hasNext()) {
                Field field = (Field) fields.next();
                text.append(field.name()).append("=").append(show(((Struct) value).get(field))).append(" ");
            }
            return text.toString();
        }
        return String.valueOf(value);
    }

    /** As the binlog's client gives them for a column of the server's type. */
    private static Object[] samples(Column there) {
        String[] words = there.typeName().toUpperCase().split("[ (]");
        String type = words[0];
        if (Arrays.asList(new String[] {"TINYINT", "SMALLINT", "MEDIUMINT", "INT"}).contains(type)) {
            return new Object[] {Integer.valueOf(-1), Integer.valueOf(1), Integer.valueOf(0), Integer.valueOf(-100)};
        }
        if (type.equals("BIGINT")) {
            return new Object[] {Long.valueOf(-1), Long.valueOf(1), Long.valueOf(Long.MIN_VALUE)};
        }
        if (type.equals("FLOAT")) {
            return new Object[] {Float.valueOf(1.2345678f)};
        }
        if (type.equals("DOUBLE")) {
            return new Object[] {Double.valueOf(3.141592653589793)};
        }
        if (type.equals("DECIMAL")) {
            int scale = there.scale().isPresent() ? ((Integer) there.scale().get()).intValue() : 0;
            return new Object[] {new BigDecimal("7").setScale(scale), BigDecimal.ONE.movePointLeft(scale)};
        }
        if (type.equals("YEAR")) {
            return new Object[] {Year.of(2001), Year.of(1901)};
        }
        if (type.equals("DATE")) {
            return new Object[] {LocalDate.of(2024, 2, 29)};
        }
        if (type.equals("TIME")) {
            return new Object[] {Duration.ofNanos(45296789012000L)};
        }
        if (type.equals("DATETIME")) {
            return new Object[] {LocalDateTime.of(2024, 2, 29, 12, 34, 56, 789012000)};
        }
        if (type.equals("TIMESTAMP")) {
            return new Object[] {LocalDateTime.of(2024, 2, 29, 12, 34, 56, 789012000).atOffset(ZoneOffset.UTC).toZonedDateTime()};
        }
        if (type.equals("ENUM") || type.equals("SET")) {
            List numbers = new ArrayList();
            for (int i = 1; i <= Math.min(there.enumValues().size(), 40); i++) {
                numbers.add(type.equals("ENUM") ? (Object) Integer.valueOf(i) : (Object) Long.valueOf(1L << (i - 1)));
            }
            return numbers.toArray();
        }
        if (type.equals("BIT")) {
            BitSet bits = new BitSet();
            bits.set(0);
            bits.set(Math.max(0, there.length() - 1));
            return new Object[] {bits};
        }
        if (type.equals("UUID")) {
            return new Object[] {new byte[] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
        }
        if (type.contains("POINT") || type.contains("GEOM") || type.contains("POLYGON") || type.contains("LINESTRING")) {
            ByteBuffer point = ByteBuffer.allocate(25).order(java.nio.ByteOrder.LITTLE_ENDIAN);
            point.putInt(0).put((byte) 1).putInt(1).putDouble(1.5).putDouble(-2.25);
            return new Object[] {point.array()};
        }
        if (type.equals("JSON")) {
            return new Object[] {new byte[] {0, 0, 0, 4, 0}};
        }
        if (type.equals("VECTOR")) {
            return new Object[] {new byte[] {0, 0, (byte) 0x80, 0x3f}};
        }
        if (type.equals("LONGTEXT")) {
            // It may be MariaDB's JSON, which a check constraint keeps valid.
            return new Object[] {new byte[] {34, 97, (byte) 0xc3, (byte) 0xa9, 34}};
        }
        // Texts and bytes: one that is none in UTF-8, one that is several letters in others.
        return new Object[] {
            new byte[] {97, (byte) 0xc3, (byte) 0xa9}, new byte[] {(byte) 0xe9}, new byte[] {(byte) 0xb0, (byte) 0xa1},
            new byte[] {0, 97}};
    }
}
