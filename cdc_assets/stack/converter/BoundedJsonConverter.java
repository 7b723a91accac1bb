package cdc_assets;

import java.util.Map;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.json.JsonConverter;

/** Kafka's converter to JSON; of a value that is larger than its bound it writes SizeBound's sentence. */
public final class BoundedJsonConverter extends JsonConverter {
    private SizeBound bound;

    @Override
    public void configure(Map<String, ?> configs, boolean isKey) {
        super.configure(configs, isKey);
        bound = new SizeBound(configs);
    }

    @Override
    public byte[] fromConnectData(String topic, Headers headers, Schema schema, Object value) {
        return bound.bound(headers, fromConnectData(topic, schema, value));
    }
}
