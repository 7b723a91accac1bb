"""`cdc peek`: records of a topic, decoded, with sensitive values as hashes."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cdc_assets import settings
from cdc_assets.cli.chosen_sources import complete_topic
from cdc_assets.cli.option_group import group_options
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document, to_json
from cdc_assets.registry_files.loader import load_sources
from cdc_assets.shown_text import visible


@dataclass(frozen=True)
class PeekOptions:
    """Which records of the topic are printed."""

    key: Annotated[str | None, typer.Option(help="Only of this key: 42, id=42 or JSON; the whole topic is read.")] = None
    at: Annotated[str | None, typer.Option(help="From here on: an offset, a time (UTC), or so long ago (5m).")] = None
    limit: Annotated[int, typer.Option(min=1, help="At most so many records: without --at the newest. With --at and -f all.")] = (
        10
    )
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Then print what comes, until Ctrl-C.")] = False
    partition: Annotated[int | None, typer.Option(min=0, help="Only of this partition.")] = None


@group_options
def peek(
    topic: Annotated[str, typer.Argument(help="Its name, on the core or the lake cluster.", autocompletion=complete_topic)],
    chosen: PeekOptions,
    cluster: Annotated[str | None, typer.Option(help="Where to look; by default core, then lake.")] = None,
    output: Output = Format.text,
    show_sensitive: Annotated[bool, typer.Option("--show-sensitive", help="Values of sensitive columns as they are.")] = False,
) -> None:
    """Print records of a topic, decoded. Sensitive columns are shown as hashes; nothing is committed."""
    from cdc_assets.peek import records
    from cdc_assets.peek.decoded_record import Decoder
    from cdc_assets.peek.topic_place import find_topic
    from cdc_assets.peek.wanted_key import matches_key
    from cdc_assets.resources.platform import Platform

    platform = Platform()
    sources = load_sources(settings.sources_folder())
    place = find_topic(platform, sources, topic, cluster=cluster)
    decoder = Decoder(place, platform.lake, show_sensitive=show_sensitive)
    key, follow = chosen.key, chosen.follow
    wanted = None if key is None else lambda record: matches_key(key, decoder.key_fields(record))
    window = records.PeekWindow(chosen.at, chosen.limit, chosen.partition, wanted)
    if decoder.sensitive:
        print(f"shown as hashes: {', '.join(decoder.sensitive)}; --show-sensitive prints them", file=sys.stderr)
    client = place.open(platform)
    if follow and chosen.at is not None:
        found, seen = list[Any](), records.start_offsets(client, topic, window)
    else:
        found, seen = records.read_window(client, topic, window)
    for record in found:
        _print(decoder.decode(record), output)
    if not (found or follow):
        print(f"no record of {topic} on {place.cluster}" + (" is of that key" if key else ""), file=sys.stderr)
    for record in records.follow(client, topic, window, seen) if follow else ():
        _print(decoder.decode(record), output)


def _print(record: Any, output: Format) -> None:
    """A line of text or of JSON for each record, or a document of YAML: one that follows has no end."""
    if output is Format.json:
        print(to_json(record.to_json()), flush=True)
    elif is_data(output):
        print("---")
        print_document(record.to_json(), output)
    else:
        where = f"{record.record.partition}:{record.record.offset}"
        key, row = (visible(json.dumps(each, default=str, ensure_ascii=False)) for each in (record.key, record.row))
        print(f"{where}  {record.time}  {record.op or '-'}  {key}  {row}", flush=True)
