"""A login as librdkafka takes it, which reads the same client.properties as Java's clients (spark.kafka.login)."""

from __future__ import annotations

from spark.kafka.login import CERTIFICATE, HOSTS, KEY_FILE, KEY_PASSWORD, PRIVATE_KEY, KafkaLogin

# Java's key: librdkafka's as a file, and as text. https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
_PEM = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.truststore.certificates": ("ssl.ca.location", "ssl.ca.pem"),
    KEY_FILE: ("ssl.certificate.location", "ssl.key.location"),
    CERTIFICATE: ("ssl.certificate.location", "ssl.certificate.pem"),
    PRIVATE_KEY: ("ssl.key.location", "ssl.key.pem"),
}


def librdkafka(login: KafkaLogin) -> dict[str, str]:
    """The login as settings: the one place where a password is in our memory."""
    found = {"security.protocol": login.values["security.protocol"]}
    if (user := login.jaas()) is not None:
        found |= {"sasl.mechanism": login.values["sasl.mechanism"]}
        found |= {"sasl.username": user.options["username"], "sasl.password": user.options["password"]}
    for key, (file_key, *others) in _PEM.items():
        if key not in login.values:
            continue
        file = login.folder_file(key)
        if key.endswith(".location") or file:
            found |= dict.fromkeys(
                (file_key, *(other for other in others if other.endswith(".location"))), file or login.values[key]
            )
        else:
            found |= {others[0]: login.values[key]}
    if KEY_PASSWORD in login.values:
        found[KEY_PASSWORD] = login.text(KEY_PASSWORD)
    if HOSTS in login.values:
        found[HOSTS] = login.values[HOSTS] or "none"
    return found
