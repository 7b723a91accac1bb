package cdc_assets;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Map;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.connect.errors.ConnectException;

/**
 * What a converter writes in place of a value that the worker's producer would refuse: a sentence with its size and digest.
 *
 * A producer that refuses a record (max.request.size) ends the connector's task, after each restart again, and all tables with it.
 * The sentence stands in a header, too: by that one, bronze tells it from an event (spark/record_formats.py, LARGE_HEADER).
 */
final class SizeBound {
    static final String SETTING = "largest.value.bytes";
    static final String HEADER = "cdc_assets.large";
    private static final String BEGIN = "the record is too large";

    private final int largest;

    SizeBound(Map configs) {
        Object setting = configs.get(SETTING);
        try {
            largest = setting == null ? Integer.MAX_VALUE : Integer.parseInt(setting.toString().trim());
        } catch (NumberFormatException error) {
            throw new ConnectException(SETTING + " is no number of bytes: " + setting, error);
        }
        if (largest < 1024) {
            throw new ConnectException(SETTING + " is less than 1024: " + setting);
        }
    }

    byte[] bound(Headers headers, byte[] value) {
        if (value == null || value.length <= largest || headers == null) {
            return value;
        }
        byte[] sentence = sentence(value).getBytes(StandardCharsets.UTF_8);
        headers.add(HEADER, sentence);
        return sentence;
    }

    private String sentence(byte[] value) {
        StringBuilder digest = new StringBuilder();
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest(value);
            for (int i = 0; i < hash.length; i++) {
                digest.append(Character.forDigit((hash[i] >> 4) & 15, 16)).append(Character.forDigit(hash[i] & 15, 16));
            }
        } catch (NoSuchAlgorithmException error) {
            throw new ConnectException("this Java has no SHA-256", error);
        }
        return BEGIN + ": " + value.length + " bytes, above the " + largest + " of its connector; sha256 of its value " + digest;
    }
}
