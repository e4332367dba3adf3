from click.testing import CliRunner
from logjudge.cli.main import cli


def test_help_lists_every_command() -> None:
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    assert "Judge a replicated log" in result.output
