"""`cdc spark-submit`: Spark's own spark-submit, with the Python, the Java and the jars that the jobs need."""

from __future__ import annotations

import os

import typer

from cdc_assets import settings


def spark_submit(context: typer.Context) -> None:
    """Run spark-submit with these arguments; its options come before the script, as always."""
    from cdc_assets.stack.home import Home
    from cdc_assets.stack.spark_submit import OF_CONNECT, submit_command, submit_environment

    home = Home(settings.home()).create()
    command = submit_command(context.args)
    own = {name: value for name, value in os.environ.items() if name not in OF_CONNECT}
    os.execve(command[0], command, {**own, **submit_environment(home, context.args)})
