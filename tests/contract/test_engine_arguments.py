"""Every command line that is rendered for vLLM, read by vLLM's own parser: nothing in it is unknown or of another type.

Skipped where vLLM is not installed: `python tools/vllm_arguments.py` installs it and runs this.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
import yaml

from provisioner.admission.admit import forecast_endpoint
from provisioner.rendering.shape import spans_nodes
from tests.contract.runtimes import Case, changed, pod_templates
from tests.golden.test_tiers import CASES, installation, request_of
from tests.unit.rendering.examples import catalog

REASON = "needs vLLM: run `python tools/vllm_arguments.py`"
parsers = pytest.importorskip("vllm.utils.argparse_utils", reason=REASON, exc_type=ImportError)
HAS_LAUNCHERS = find_spec("vllm.entrypoints.launchers") is not None  # older versions keep it with the OpenAI server
CLI = "vllm.entrypoints.launchers.cli_args" if HAS_LAUNCHERS else "vllm.entrypoints.openai.cli_args"
cli = pytest.importorskip(CLI, reason=REASON, exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")
RUNTIME = catalog().runtimes["vllm"]
MODELS = sorted(model.id for model in catalog().models.values() if model.master.runtime == "vllm")
SIZES = ("tensorParallelSize", "pipelineParallelSize")
Arguments = list[str]


def parser() -> Any:
    """A new parser of `vllm serve`."""
    return cli.make_arg_parser(parsers.FlexibleArgumentParser())


def parsed(arguments: Arguments) -> Any:
    """What vLLM makes of arguments; it ends the process where it refuses one."""
    try:
        found = parser().parse_args(arguments)
        cli.validate_parsed_serve_args(found)
    except (SystemExit, ValueError, TypeError) as error:
        pytest.fail(f"vLLM refuses {arguments}: {error!r}")
    return found


def served(manifests: Iterator[dict[str, Any]]) -> Iterator[Arguments]:
    """The arguments of every container that runs `vllm serve`."""
    for manifest in manifests:
        for template in pod_templates(manifest):
            for container in template["spec"]["containers"]:
                if (container.get("command") or [])[-2:] == ["vllm", "serve"]:
                    yield container["args"]


def case_of(model: str, serving: dict[str, Any]) -> Case:
    """A case in a tier that has so many GPUs for a replica."""
    gpus = catalog().models[model].master.hardware.gpus
    return changed("multinode" if gpus > 8 else "dedicated", request={"model": model, "serving": serving})


@pytest.mark.parametrize(("tier", "case"), CASES, ids=["-".join(case) for case in CASES])
def test_vllm_takes_what_stands_in_the_golden_trees(tier: str, case: str) -> None:
    known, site, pack = installation(tier, case)
    plan = forecast_endpoint(request_of(tier, case), catalog=known, site=site).plan
    assert plan is not None
    tree = pack.runtime_tree(plan).values()
    found = list(served(yaml.load(text, Loader=yaml.CSafeLoader) for text in tree))
    assert bool(found) is (plan.runtime.runtime == "vllm")
    for arguments in found:
        read = parsed(arguments)
        assert read.model_tag == arguments[0]
        assert read.served_model_name == [plan.runtime.served_model]
        assert read.max_model_len == plan.runtime.serving["maxModelLen"]
        assert read.tensor_parallel_size == plan.runtime.serving.get("tensorParallelSize", 1)
        assert (read.distributed_executor_backend == "ray") is spans_nodes(plan)


@pytest.mark.parametrize("model", MODELS)
def test_vllm_takes_every_model_of_the_catalog_with_every_parameter(model: str) -> None:
    of_type = {"boolean": True, "integer": 8, "number": 0.9}
    every = {
        name: parameter.options[0] if parameter.options else of_type[parameter.type]
        for name, parameter in RUNTIME.overridable.items()
        if name not in SIZES
    }
    for serving in ({}, {**every, "maxModelLen": 4096}):
        found = case_of(model, serving)
        read = parsed(found.server["args"])
        assert read.tensor_parallel_size * read.pipeline_parallel_size == found.plan.capacity.gpus_per_replica
        assert read.max_model_len == found.plan.runtime.serving["maxModelLen"]


def test_vllm_takes_adapters_and_extra_arguments() -> None:
    serving = {
        "adapters": [{"name": "support", "source": "acme/support"}, {"name": "tone", "source": "/adapters/tone"}],
        "extraArgs": ["--seed=7", "--enable-prefix-caching", "--kv-cache-dtype", "fp8"],
    }
    read = parsed(changed("isolated", request={"serving": serving}).server["args"])
    assert [adapter.name for adapter in read.lora_modules] == ["support", "tone"]
    assert (read.enable_lora, read.seed, read.kv_cache_dtype) == (True, 7, "fp8")


def test_every_flag_that_the_runtime_writes_or_keeps_for_itself_is_one_that_vllm_has() -> None:
    """A flag that vLLM drops would be refused when a model starts, and one that it renames could be set twice."""
    known = parser()._option_string_actions
    written = [parameter.flag for parameter in RUNTIME.parameters.values() if parameter.flag]
    fixed = [argument for argument in (*RUNTIME.arguments, *RUNTIME.owned_flags) if argument.startswith("-")]
    assert [flag for flag in (*written, *fixed) if flag not in known] == []
