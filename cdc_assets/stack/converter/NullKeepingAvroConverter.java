package cdc_assets;

import io.apicurio.registry.utils.converter.AvroConverter;
import io.apicurio.registry.utils.converter.avro.AvroData;
import java.lang.reflect.Field;
import java.util.Map;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;

/**
 * Apicurio's converter, which writes a NULL as NULL, and SizeBound's sentence for a value that is larger than its bound.
 *
 * Its own way is to write the default value of a nullable column in place of a NULL, and a reader cannot tell the two apart. It
 * has a switch against that, as Confluent's has (ignore.default.for.nullables), and no setting that turns it.
 * docs/adr/archive/0101-own-connectors-in-avro.md
 */
public final class NullKeepingAvroConverter extends AvroConverter<Object> {
    private SizeBound bound;

    @Override
    public void configure(Map<String, ?> configs, boolean isKey) {
        super.configure(configs, isKey);
        bound = new SizeBound(configs);
        try {
            Field data = AvroConverter.class.getDeclaredField("avroData");
            data.setAccessible(true);
            Field keepsNulls = AvroData.class.getDeclaredField("ignoreDefaultForNullables");
            keepsNulls.setAccessible(true);
            keepsNulls.setBoolean(data.get(this), true);
        } catch (ReflectiveOperationException error) {
            throw new ConnectException("This release of Apicurio's converter is not known here: it would write defaults for NULLs", error);
        }
    }

    @Override
    public byte[] fromConnectData(String topic, Headers headers, Schema schema, Object value) {
        return bound.bound(headers, super.fromConnectData(topic, headers, schema, value));
    }
}
