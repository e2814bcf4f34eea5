"""What every check of logs from the command line shares, whoever recorded them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from liftlog.terminal import Activity
from liftlog_jepsen.result import CheckResult

if TYPE_CHECKING:
    from liftlog_jepsen.parquet import FolderInfo
    from liftlog_jepsen.spark.check import CheckOptions

LARGE_MOPS = 10_000_000
"""From here on a Java process that takes longer to start but runs faster pays off."""
PICTURES_MAX = 8
"""Histories of one folder that the HTML report shows with plots and a timeline."""


class Source(NamedTuple):
    """A validated history as Spark will read it."""

    folder: Path
    info: FolderInfo

    @property
    def incomplete(self) -> frozenset[str]:
        return frozenset(one.name for one in self.info.histories if not one.complete)


def run(
    source: Source, arguments: argparse.Namespace, name: str, temporary: Path, activity: Activity
) -> list[CheckResult]:
    """The results of the log checks, in a Spark session of their own. `name` is what messages call it."""
    from liftlog_jepsen.parquet import count_mops
    from liftlog_jepsen.spark.cycles import CycleOptions
    from liftlog_jepsen.spark.run import check_folder

    return check_folder(
        source.folder,
        options_of(arguments),
        master=arguments.master,
        driver_memory=arguments.driver_memory,
        source=name,
        incomplete=source.incomplete,
        java_log=temporary / "java.log",
        show=activity.show,
        quick=count_mops(source.folder) < LARGE_MOPS,
        cycles=CycleOptions(ww_deps=arguments.ww_deps) if arguments.cycles else None,
    )


def options_of(arguments: argparse.Namespace) -> CheckOptions:
    """How logs are to be judged."""
    from liftlog_jepsen.spark.check import CheckOptions

    return CheckOptions(
        arguments.gaps,
        frozenset(arguments.allow),
        arguments.examples,
        unseen=arguments.unseen,
        sub_via=arguments.sub_via,
    )


def with_pictures(results: list[CheckResult], source: Source) -> list[CheckResult]:
    """Add the pictures of the first few histories, those that are not valid first."""
    from liftlog_jepsen.report.picture import draw

    meta = {one.name: one.meta for one in source.info.histories}
    worst_first = sorted(results, key=lambda one: one.exit_code == 0)
    drawn = {one.history for one in worst_first[:PICTURES_MAX]}
    return [
        one._replace(picture=draw(source.folder, one, meta.get(one.history, {})))
        if one.history in drawn
        else one
        for one in results
    ]
