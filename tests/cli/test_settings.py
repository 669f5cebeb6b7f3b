"""Settings files: which one counts, what it may say, and that the command line beats it."""

from __future__ import annotations

from pathlib import Path

import pytest

from templatefix.errors import TargetError
from templatefix.settings import Settings, find_settings, read_settings
from tests.cli.stub import Program, Stub
from tests.report.samples import clean, finding, info, report


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "models" / "small").mkdir(parents=True)
    (tmp_path / "models" / "small" / "x.jinja").write_text("{{ messages }}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def checked(program: Program, *args: str) -> Settings:
    """The settings under which the stub was asked, as far as it sees them."""
    ended = program("check", *args)
    assert ended.exit_code in (0, 1), ended.output
    call = program.calls[-1]
    return Settings(
        tokenizer=call.source.tokenizer,
        chat_template=call.source.chat_template,
        template_name=call.source.template_name,
        revision=call.source.revision,
        offline=call.source.offline,
        kwargs=call.options.kwargs,
        policy=call.options.policy,
        block_size=call.options.block_size,
        reasoning_parser=call.options.reasoning_parser,
        tool_call_parser=call.options.tool_call_parser,
        full=call.options.full,
        max_examples=call.options.max_examples,
        seed=call.options.seed,
    )


TARGET = "models/small/x.jinja"


def test_the_nearest_file_wins_and_its_own_beats_the_project_file(folder: Path) -> None:
    assert find_settings(TARGET) is None
    outer = folder / "pyproject.toml"
    outer.write_text("[tool.templatefix]\nblock-size = 8")
    assert find_settings(TARGET) == outer
    inner = folder / "models" / "pyproject.toml"
    inner.write_text("[tool.other]\nx = 1")
    assert find_settings(TARGET) == outer
    inner.write_text("[tool.templatefix]")
    assert find_settings(TARGET) == inner
    own = folder / "models" / "templatefix.toml"
    own.write_text("")
    assert find_settings(TARGET) == own
    assert find_settings("models") == own
    assert find_settings("Qwen/Qwen3-8B") == outer
    assert find_settings("-") == outer


def test_without_a_file_the_defaults_hold(folder: Path, stub: Stub) -> None:
    assert checked(stub({TARGET: clean()}), TARGET) == Settings()


def test_every_option_can_stand_in_a_file(folder: Path, stub: Stub) -> None:
    (folder / "tok").mkdir()
    (folder / "models" / "templatefix.toml").write_text(
        """
        tokenizer = "small"
        chat-template = "small/x.jinja"
        template-name = "tool_use"
        revision = "v1"
        offline = true
        kwargs = {enable_thinking = false, effort = "low"}
        policy = "lossless"
        block-size = 32
        reasoning-parser = "qwen3"
        tool-call-parser = "hermes"
        full = true
        max-examples = 3
        seed = 7
        """
    )
    program = stub({TARGET: clean()})
    here = folder / "models" / "small"
    assert checked(program, TARGET) == Settings(
        tokenizer=str(here),
        chat_template=str(here / "x.jinja"),
        template_name="tool_use",
        revision="v1",
        offline=True,
        kwargs={"enable_thinking": False, "effort": "low"},
        policy="lossless",
        block_size=32,
        reasoning_parser="qwen3",
        tool_call_parser="hermes",
        full=True,
        max_examples=3,
        seed=7,
    )
    beaten = checked(
        program,
        TARGET,
        *"--tokenizer org/t --chat-template y.jinja --template-name default --revision v2".split(),
        *"--no-offline --policy keep-reasoning --block-size 4 --no-full --no-search".split(),
        *("--kwargs", "{}", "--reasoning-parser", "a", "--tool-call-parser", "b", "--seed", "1"),
    )
    assert beaten == Settings(
        tokenizer="org/t",
        chat_template="y.jinja",
        template_name="default",
        revision="v2",
        kwargs={},
        policy="keep-reasoning",
        block_size=4,
        reasoning_parser="a",
        tool_call_parser="b",
        max_examples=0,
        seed=1,
    )
    assert checked(program, TARGET, "--isolated") == Settings()


def test_each_target_has_the_settings_above_it(folder: Path, stub: Stub) -> None:
    (folder / "models" / "templatefix.toml").write_text('fail-on = "never"\nblock-size = 64')
    broken = report(findings=(finding(),))
    program = stub({TARGET: broken, "other.jinja": broken})
    assert program("check", TARGET).exit_code == 0
    assert program("check", TARGET, "other.jinja").exit_code == 1
    assert [call.options.block_size for call in program.calls] == [64, 64, 16]


def test_config_names_the_file_for_all_targets(folder: Path, stub: Stub) -> None:
    (folder / "models" / "templatefix.toml").write_text("block-size = 64")
    (folder / "mine.toml").write_text("block-size = 128")
    program = stub({TARGET: clean()})
    assert checked(program, TARGET, "--config", "mine.toml").block_size == 128


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("blocksize = 1", "unknown key 'blocksize' (did you mean 'block-size'?)"),
        ("block_size = 1", "unknown key 'block_size' (did you mean 'block-size'?)"),
        ("write-baseline = 'x'", "unknown key 'write-baseline'"),
        ('output = "a\\u0000b"', "'output' must be a string without NUL characters"),
        ("block-size = '1'", "'block-size' must be a whole number"),
        ("block-size = true", "'block-size' must be a whole number"),
        ("block-size = 0", "'block-size' must be a whole number of at least 1"),
        ("policy = 'both'", "'policy' must be one of lossless, keep-reasoning"),
        ("offline = 'yes'", "'offline' must be true or false"),
        ("select = [1]", "'select' must be a list of codes"),
        ("per-file-ignores = ['x']", "'per-file-ignores' must be a table"),
        ("kwargs = {when = 2026-01-01}", "'kwargs' must be a table"),
        ("kwargs = 1", "'kwargs' must be a table"),
        ("revision = ''", "'revision' must be a string"),
        ("fail-on = 3", "'fail-on' must be one of"),
        ("x = [", "is not TOML"),
        ("output = '../../elsewhere'", "'output' must lie in the folder"),
        ("output = '/tmp/elsewhere'", "'output' must lie in the folder"),
        ("select = ['TF999']", "no rule has the code 'TF999'"),
        ("per-file-ignores = {'*' = ['TF999']}", "no rule has the code 'TF999'"),
    ],
)
def test_a_wrong_file_names_itself_and_the_key_and_spoils_only_its_targets(
    folder: Path, stub: Stub, text: str, words: str
) -> None:
    file = folder / "models" / "templatefix.toml"
    file.write_text(text)
    ended = stub({"other.jinja": clean()})("check", TARGET, "other.jinja")
    assert ended.exit_code == 2
    told = " ".join(ended.stdout.split())
    assert f"{TARGET}: error: TF901 {file}: {words}" in told
    assert "other.jinja: preserving" in told


def test_a_wrong_config_file_ends_the_run(folder: Path, stub: Stub) -> None:
    (folder / "mine.toml").write_text("block-size = 'x'")
    ended = stub({TARGET: clean()})("check", TARGET, "--config", "mine.toml")
    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("templatefix: mine.toml: 'block-size' must be")


def test_project_files_that_are_not_ours_may_be_broken(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.other\n")
    assert find_settings(TARGET) is None
    (folder / "pyproject.toml").write_text("[tool.templatefix\n")
    with pytest.raises(TargetError, match=r"pyproject\.toml: is not TOML"):
        find_settings(TARGET)


def test_select_and_ignore_take_codes_and_prefixes(folder: Path, stub: Stub) -> None:
    program = stub({TARGET: report(findings=(finding(), info()))})

    def codes(*args: str) -> list[str]:
        [only] = program.json("check", TARGET, *args)["reports"]
        return [each["code"] for each in only["findings"]]

    assert codes() == ["TF102", "TF105"]
    assert codes("--select", "TF102") == ["TF102"]
    assert codes("--select", "TF1", "--ignore", "TF102") == ["TF105"]
    assert codes("--ignore", "TF10") == []
    (folder / "templatefix.toml").write_text("ignore = ['TF105']\nselect = ['TF102', 'TF105']")
    assert codes() == ["TF102"]
    assert codes("--ignore", "TF102") == ["TF105"]


@pytest.mark.parametrize(
    ("pattern", "hit"),
    [
        ("models/small/*.jinja", True),
        ("*.jinja", True),
        ("x.jinja", True),
        ("models/*", True),
        ("small/x.jinja", False),
        ("*.j2", False),
    ],
)
def test_per_file_ignores_count_from_the_settings_file(
    folder: Path, stub: Stub, pattern: str, hit: bool
) -> None:
    (folder / "templatefix.toml").write_text(f"[per-file-ignores]\n'{pattern}' = ['TF102']")
    for target in (TARGET, f"./{TARGET}", str(folder / TARGET)):
        ended = stub({target: report(findings=(finding(),))})("check", target)
        assert ended.exit_code == (0 if hit else 1)


def test_paths_in_a_file_count_from_that_file(folder: Path) -> None:
    file = folder / "models" / "templatefix.toml"
    file.write_text("baseline = 'b.json'\nconversation = 'c.json'\noutput = 'o.txt'")
    settings = read_settings(file)
    assert settings.baseline == str(folder / "models" / "b.json")
    assert settings.conversation == str(folder / "models" / "c.json")
    assert settings.output == str(folder / "models" / "o.txt")
    file.write_text("tokenizer = 'org/name'\nconversation = '-'")
    assert read_settings(file).tokenizer == "org/name"
    assert read_settings(file).conversation == "-"
