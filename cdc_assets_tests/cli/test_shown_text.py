"""No value of a source's acts on the terminal that shows it, on Dagster's pages, or on a chat."""

from __future__ import annotations

import io
import json
import re
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdc_assets.cli.cdc_command import GuardedTerminal, guard_terminal
from cdc_assets.cli.output_formats import Format, print_document, print_rows
from cdc_assets.deploy import alert_channels
from cdc_assets.deploy.alert_channels import Alert, Slack
from cdc_assets.registry.display_text import (
    in_markdown,
    lines_in_markdown,
    on_terminal,
    prose_in_markdown,
    prose_of_markdown,
    visible,
    visible_lines,
)

TITLE, CLIPBOARD, WIPE = "\x1b]0;owned\x07", "\x1b]52;c;ZXZpbA==\x1b\\", "\x1b[2J"
HOSTILE = f"{TITLE}{CLIPBOARD}{WIPE}\x9b2J\x7f\u202eevil\u2066[/x][link=http://evil]a[/link]:smile:"
ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
MARKDOWN = (
    "![p](http://127.0.0.1:7777/x.png)",
    "[a](javascript:alert(1))",
    "<img src=http://evil>",
    "<http://evil>",
    "```\n![p](http://evil)\n```",
    "`a` **b** _c_ ~~d~~ | e |",
    "![r]\n\n[r]: http://evil",
    "\\![p](http://evil)",
    "&#33;[p](http://evil)",
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(st.text())
def test_whatever_the_text_nothing_acts(text: str) -> None:
    for shown in (visible(text), visible_lines(text)):
        assert not ACTIVE.search(shown)
    assert "\n" not in visible(text)
    assert visible_lines("a\n\tb") == "a\n\tb"


@pytest.mark.parametrize("output", list(Format))
def test_a_table_of_hostile_values_is_shown(output: Format, capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"name": HOSTILE, "n": None}], output, narrow=["name", "n"])
    shown = capsys.readouterr().out
    assert not ACTIVE.search(shown)
    assert "[/x]" in shown
    if output is Format.json:
        assert json.loads(shown) == [{"name": HOSTILE, "n": None}]
    if output is Format.yaml:
        from ruamel.yaml import YAML

        assert YAML(typ="safe").load(shown) == [{"name": HOSTILE, "n": None}]
    if output is Format.text:
        assert r"\x1b]0;owned\x07" in shown


FRAGMENTS = st.sampled_from(
    [
        TITLE,
        CLIPBOARD,
        WIPE,
        "\x9b",
        "\u202e",
        "\u2066",
        "[/x]",
        "[link=",
        "]",
        "![",
        "](",
        "<img",
        "```",
        "|",
        "\n",
        "\t",
        "\\",
        "&",
        "é",
    ]
)
DRAWN = st.lists(st.one_of(FRAGMENTS, st.text(max_size=4)), max_size=8).map("".join)


@pytest.mark.all
@settings(max_examples=1000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=DRAWN, output=st.sampled_from(list(Format)))
def test_no_printer_lets_a_drawn_value_act(text: str, output: Format, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    print_rows([{"name": text, "n": None}], output, narrow=["name", "n"])
    print_document({"name": text, "many": [text]}, Format.json if output is Format.text else output)
    assert not ACTIVE.search(capsys.readouterr().out)
    assert not ACTIVE.sub("", on_terminal(text)).count("\x1b]")
    assert not any(each in on_terminal(text) for each in (TITLE, CLIPBOARD, "\x9b", "\u202e"))


@pytest.mark.all
@settings(max_examples=1000)
@given(DRAWN)
def test_no_page_lets_a_drawn_value_act(text: str) -> None:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    for written in (in_markdown(text), lines_in_markdown([text, text]), f"| a |\n| --- |\n| {in_markdown(text)} |"):
        kinds = {token.type for each in parser.parse(written) for token in (each, *(each.children or ()))}
        assert not kinds & {"image", "link_open", "html_inline", "html_block", "fence", "code_block", "code_inline", "em_open"}


def test_yaml_keeps_letters_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_document({"a": "ünï"}, Format.yaml)
    assert "ünï" in capsys.readouterr().out


def test_a_terminal_gets_colours_and_nothing_else_that_it_acts_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        on_terminal(f"\x1b[31mred\x1b[0m {TITLE}\x1b[1A\x1b[2K") == "\x1b[31mred\x1b[0m " + r"\x1b]0;owned\x07" + "\x1b[1A\x1b[2K"
    )
    terminal, pipe = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", pipe)
    guard_terminal()
    assert isinstance(sys.stdout, GuardedTerminal)
    print(HOSTILE)
    print(HOSTILE, file=sys.stderr)
    assert not any(each in terminal.getvalue() for each in (TITLE, CLIPBOARD, WIPE, "\x9b", "\u202e"))
    assert pipe.getvalue() == HOSTILE + "\n"


@pytest.mark.parametrize("text", MARKDOWN)
def test_markdown_shows_a_text_as_it_is(text: str) -> None:
    """CommonMark's own reference rules, in another implementation than Dagster's page has."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    in_cell = parser.parse(f"| a |\n| --- |\n| {in_markdown(text)} |")
    for tokens in (parser.parse(in_markdown(text)), parser.parse(lines_in_markdown([text, text])), in_cell):
        kinds = {token.type for each in tokens for token in (each, *(each.children or ()))}
        assert not kinds & {"image", "link_open", "html_inline", "html_block", "fence", "code_block", "code_inline", "em_open"}
        cells = [t for t in tokens if t.type == "inline" and visible(text)[:5] in "".join(c.content for c in t.children or ())]
        assert cells


@pytest.mark.parametrize("text", [*MARKDOWN, "~~~\n![p](http://evil)", "a\n<img src=http://evil>", "a\\\\![p](http://evil)"])
def test_what_a_check_says_of_a_source_acts_nowhere_and_is_read_back(text: str) -> None:
    """Dagster's page renders a check's description; `cdc status` and the alarms read it from there."""
    import dagster as dg
    from markdown_it import MarkdownIt

    from cdc_assets.defs.check_results import check_result, evaluation_of

    said = f"column {text}: 3 rows in silver_x, see `cdc quarantine list` {TITLE}"
    key = dg.AssetCheckKey(dg.AssetKey(["silver", "shop", "orders"]), "quarantine_empty")
    result = check_result(key, False, said, {})
    for described in (result.description, evaluation_of(result).description):
        tokens = MarkdownIt("commonmark", {"html": True}).parse(described or "")
        kinds = {token.type for each in tokens for token in (each, *(each.children or ()))}
        assert not kinds & {"image", "link_open", "html_inline", "html_block", "fence", "code_block", "code_inline"}
        assert "3 rows in silver_x, see" in str(described)
        assert prose_of_markdown(described or "") == visible_lines(said)


@given(st.text(alphabet="\\[]<`~!(x\n"))
def test_each_description_is_read_back_as_it_was_said(text: str) -> None:
    assert prose_of_markdown(prose_in_markdown(text)) == text


def test_slack_gets_no_mention_and_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    monkeypatch.setattr(alert_channels, "_post", lambda name, url, body: texts.append(body["text"]))
    channel = Slack(kind="slack", name="ops", url="http://127.0.0.1:1")
    channel.send([Alert("red", "<!channel> & <http://evil|cdc repair>", 'it\'s "x"')])
    assert texts == ['RED &lt;!channel&gt; &amp; &lt;http://evil|cdc repair&gt;: it\'s "x"']
