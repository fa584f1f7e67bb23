"""The Python API, on real commands. The program under test is the first becalm in PATH."""

import gc
import os
import sys
import tempfile
import unittest
import warnings

import becalm

IMPORTS = [sys.executable, "-c", "import email.mime.text, json; print('done')"]


class Checks(unittest.TestCase):
    def test_a_check_is_a_view_over_the_answer(self):
        check = becalm.check(IMPORTS, profile="lustre", ranks=512, nodes=8)
        self.assertEqual((check.status, check.output), (0, "done\n"))
        self.assertGreater(check.totals.metadata_ops, 50)
        self.assertEqual(check.json["schema"], "becalm.check/1")
        self.assertEqual(check.totals.metadata_ops, check.json["totals"]["metadata_ops"])
        self.assertEqual(check.json["model"]["ranks"], 512)
        self.assertIn(str(check.totals.processes), str(check.json["totals"]["processes"]))
        self.assertEqual(len(check.storms), len(check.json["storms"]))

    def test_a_storm_has_its_cures(self):
        check = becalm.check(["bash", "-c", "for i in {1..400}; do dirname /a/b; done"], until="exit")
        self.assertEqual(check.storms[0].name, "fork")
        cure = next(cure for cure in check.cures if cure.storm == "fork")
        self.assertEqual(cure.json["actor"], cure.actor)
        self.assertTrue(cure.command is None or cure.command.startswith("becalm "), cure)

    def test_a_storm_has_its_wait(self):
        with tempfile.TemporaryDirectory() as directory:
            entries = [os.path.join(directory, f"entry{number}") for number in range(60)]
            for entry in entries:
                os.mkdir(entry)
            env = {**os.environ, "PYTHONPATH": ":".join(entries)}
            words = [sys.executable, "-c", "import asyncio, email.mime.text, unittest.mock"]
            check = becalm.check(words, env=env)
        self.assertEqual(check.verdict, "slow_start")
        storm = check.storms[0]
        self.assertEqual(storm.name, "python")
        self.assertGreater(storm.metadata_ops, 1000)
        self.assertGreater(storm.wait.one_rank, 0.1)

    def test_the_end_of_a_command_is_no_error(self):
        self.assertEqual(becalm.check(["sh", "-c", "exit 127"]).status, 127)
        self.assertEqual(becalm.check(["sh", "-c", "kill -9 $$"]).status, -9)

    def test_a_recording_is_kept_where_the_caller_is(self):
        with tempfile.TemporaryDirectory() as directory:
            becalm.check(["true"], output=os.path.relpath(os.path.join(directory, "kept.becalm")), cwd="/")
            self.assertIn("kept.becalm", os.listdir(directory))

    def test_failures_are_exceptions_with_one_line(self):
        with self.assertRaises(becalm.CommandNotFound) as caught:
            becalm.check(["no-such-command"])
        self.assertEqual(str(caught.exception), "no-such-command: command not found")
        self.assertEqual(caught.exception.status, 127)
        with self.assertRaises(becalm.CannotExecute):
            becalm.check(["/etc/passwd"])
        with self.assertRaises(becalm.UsageError):
            becalm.check(["true"], profile="no-such-profile")
        with self.assertRaises(TypeError):
            becalm.check("true")

    def test_without_the_program_it_says_so(self):
        path = os.environ["PATH"]
        os.environ["PATH"] = "/nowhere"
        try:
            with self.assertRaises(becalm.ProgramMissing):
                becalm.executable()
        finally:
            os.environ["PATH"] = path


class Recordings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.directory.name, "start.becalm")
        cls.recording = becalm.record(IMPORTS, cls.path, until="exit")

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def test_events_come_one_by_one(self):
        events = list(self.recording.events())
        self.assertEqual(events[0]["type"], "header")
        calls = [event for event in events if event["type"] == "call"]
        self.assertEqual(calls, list(self.recording.events("call")))
        self.assertTrue(any((call["path"] or "").endswith("json/__init__.py") for call in calls))

    def test_who_stops_early_leaves_nothing_behind(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            events = self.recording.events()
            self.assertEqual(next(events)["type"], "header")
            events.close()
            gc.collect()

    def test_a_report_is_its_json(self):
        report = self.recording.report(by="library")
        self.assertEqual(report["schema"], "becalm.report/1")

    def test_what_is_no_recording_is_refused(self):
        with self.assertRaises(becalm.BecalmError) as caught:
            list(becalm.Recording("/etc/passwd").events())
        self.assertEqual(caught.exception.status, 1)
        self.assertIn("/etc/passwd", str(caught.exception))
        with self.assertRaises(becalm.CommandNotFound):
            becalm.record(["no-such-command"], self.path + ".2")

    def test_calls_are_a_table(self):
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            self.skipTest("pyarrow is not installed")
        table = self.recording.to_arrow()
        self.assertEqual((str(table["other_path"].type), str(table["metadata_op"].type)), ("string", "bool"))
        self.assertEqual(table.num_rows, sum(1 for _ in self.recording.events("call")))
        odd = os.path.join(self.directory.name, 'a line\nand, "quotes"')
        table_of_odd = becalm.record(["stat", odd, "NaN"], self.path + ".odd", until="exit").to_arrow()
        paths = table_of_odd["path"].to_pylist()
        self.assertIn(odd, paths)
        self.assertTrue(any(path and path.endswith("/NaN") for path in paths), paths)
        failed = [row for row in table.to_pylist() if row["metadata_op"] and row["error"] == "ENOENT"]
        report = sum(1 for call in self.recording.events("call") if call["metadata_op"] and call["error"] == "ENOENT")
        self.assertEqual(len(failed), report)


if __name__ == "__main__":
    unittest.main()
