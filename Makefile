# xloom. `make help` lists what there is to make.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BEGAN := $(shell date +%s)
# tests begin hundreds of processes, each of which would compile all modules anew
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: $(shell sed -nE 's/^([a-z0-9-]+):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: $(STAMP) ## Make .venv with everything that the tests and the demo need

$(STAMP): pyproject.toml constraints.txt
	@echo "setting up $(VENV) with $(PYTHON)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,jax,torch]'
	@touch $(STAMP)

JUDGES := $(VENV)/.judges

judges: $(JUDGES) ## What the outside judges need beside: absl-py, expecttest, flax, equinox, optax, transformers

$(JUDGES): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,jax,torch,judges]'
	@touch $(JUDGES)

LEVELS := x86-64-v3 x86-64-v4 x86-64-v4-vnni x86-64-v4-vbmi2 x86-64-v4-bf16 x86-64-v4-fp16

kernels: setup ## Compile the kernels that most programs share into src: what wheels bring, for this machine alone
	@$(BIN)/xloom library --ship

wheel: setup ## A wheel in dist with these kernels for x86-64: [LEVELS="x86-64-v3 x86-64-v4-bf16"]
	@$(BIN)/xloom library --ship $(addprefix --target ,$(LEVELS))
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

LIBRARIES := .venv-libraries

libraries: $(LIBRARIES)/.installed ## A .venv-libraries with the libraries whose suites judge-libraries runs, at the versions of their tags

$(LIBRARIES)/.installed: pyproject.toml constraints.txt
	@test -x $(LIBRARIES)/bin/python || $(PYTHON) -m venv $(LIBRARIES)
	@$(LIBRARIES)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[jax,torch,libraries]'
	@touch $@

MODELS_VENV := .venv-models

models: $(MODELS_VENV)/.installed ## A .venv-models with what bench-models compares with, ONNX Runtime and OpenVINO, and what judge-models takes models from

$(MODELS_VENV)/.installed: pyproject.toml constraints.txt
	@test -x $(MODELS_VENV)/bin/python || $(PYTHON) -m venv $(MODELS_VENV)
	@$(MODELS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[torch,models]'
	@touch $@

DOCS_VENV := .venv-docs

docs: $(DOCS_VENV)/.installed ## The site, with links checked: build/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --quiet
	@echo "build/site/index.html"

$(DOCS_VENV)/.installed: pyproject.toml constraints.txt
	@test -x $(DOCS_VENV)/bin/python || $(PYTHON) -m venv $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@touch $@

VENDORED := src/xloom/viewer/vendored
DAGRE := 3.1.3

vendored: ## Renew the library that xloom show lays graphs out with, from npm: [DAGRE=3.1.3]
	@mkdir -p build/dagre
	@cd build/dagre && npm pack --silent @dagrejs/dagre@$(DAGRE) && tar -xzf dagrejs-dagre-$(DAGRE).tgz
	@grep -v sourceMappingURL build/dagre/package/dist/dagre.min.js > $(VENDORED)/dagre/dagre.min.js
	@cp build/dagre/package/LICENSE $(VENDORED)/dagre/LICENSE
	@echo "$(DAGRE)" > $(VENDORED)/dagre/VERSION

demo: setup ## Custom calls in C and Python; a call that carries its HLO, expanded; a call that fails
	@echo "== a custom call, in C and in Python"
	@$(BIN)/python examples/custom_call.py
	@echo "== a custom call that carries its own HLO, before and after it is expanded"
	@$(BIN)/python examples/expand.py
	@echo "== a custom call that fails: a message, exit status 1, and no result"
	@$(BIN)/python examples/failure.py; status=$$?; \
	  echo "exit status $$status"; test $$status -eq 1

test: setup lint ## Every test that is not long: a case of each, then further ones until MINUTES=13 are over, of many cases a sample
	@$(BIN)/python -m pytest -n 2 --until $$(($(BEGAN) + 60 * $(or $(MINUTES),13)))

test-all: setup lint ## Every case of every test, the long ones too
	@$(BIN)/python -m pytest -n 2 --every-case

test-v3: setup ## The compiler's tests with code for x86-64-v3 (AVX2), whatever the host can do
	@XLOOM_TARGET=x86-64-v3 $(BIN)/python -m pytest -n 2 tests/cpu

lint: setup ## ruff and pyright
	@$(BIN)/ruff check src tests examples benchmarks
	@$(BIN)/ruff format --check --quiet src tests examples benchmarks
	@$(BIN)/pyright --level error --threads 2

bench: kernels ## Times against jaxlib's, alternated: text and proto, then programs, which write benchmarks/RESULTS.md; [LEVEL=x86-64-v3]: programs, both sides for such processors
	@if test -n "$(LEVEL)"; then \
	  XLOOM_TARGET=$(LEVEL) $(BIN)/xloom library --ship && $(BIN)/python -m benchmarks --level $(LEVEL); \
	else \
	  $(BIN)/python benchmarks/text.py && $(BIN)/python -m benchmarks.scaling && $(BIN)/python -m benchmarks.libraries \
	    && $(BIN)/python -m benchmarks.bandwidth && $(BIN)/python -m benchmarks; \
	fi

bench-libraries: setup ## Products, convolutions and sorts against OpenBLAS, oneDNN and NumPy, alternated: [FILTER=gemm]
	@$(BIN)/python -m benchmarks.libraries "$(FILTER)"

bench-bandwidth: setup ## What programs that memory bounds reach of the bandwidth, and whether arithmetic is why: [FILTER=bf16]
	@$(BIN)/python -m benchmarks.bandwidth "$(FILTER)"

bench-few-rows: setup ## Products of 1 to 64 rows with weights of 4 to 32 bits, beside bandwidth and multiply-adds: [ROWS=1,8] [TYPES=bf16,s8] [XLA=1]
	@$(BIN)/python -m benchmarks.few_rows $(if $(ROWS),--rows $(ROWS)) $(if $(TYPES),--types $(TYPES)) $(if $(XLA),--xla)

bench-convolutions: setup ## Convolutions of four networks and their gradients, beside bandwidth and multiply-adds: [NETWORKS=resnet50] [KINDS=forward,dx,dw] [LAYOUTS=nhwc,nchw] [BATCHES=1,8] [XLA=1]
	@$(BIN)/python -m benchmarks.convolutions $(if $(NETWORKS),--networks $(NETWORKS)) $(if $(KINDS),--kinds $(KINDS)) \
	  $(if $(LAYOUTS),--layouts $(LAYOUTS)) $(if $(BATCHES),--batches $(BATCHES)) $(if $(XLA),--xla)

bench-jax: setup ## The set through JAX, and what JAX pays for a call and a transfer: [FILTER=matmul]
	@$(BIN)/python -m benchmarks.jax_dispatch && $(BIN)/python -m benchmarks.jax_programs "$(FILTER)"

bench-sweep: setup ## The breadth of JAX's API against XLA:CPU, half an hour: [FILTER=reductions/] [REPEATS=3] [OUT=sweep.jsonl, to go on from]
	@$(BIN)/python -m benchmarks.sweep --filter "$(FILTER)" --repeats $(or $(REPEATS),3) $(if $(OUT),--out "$(OUT)")

bench-npbench: setup ## NPBench's programs in JAX against XLA:CPU, NumPy and Numba: FROM=<checkout of spcl/npbench> [PRESET=M] [FILTER=syrk]
	@$(BIN)/python -m benchmarks.npbench "$(FROM)" --preset $(or $(PRESET),M) --filter "$(FILTER)"

bench-torch-written: setup ## Compiled graphs that write their arguments, optimizers and caches, against inductor: [FILTER=adam]
	@$(BIN)/python -m benchmarks.torch_written --filter "$(FILTER)"

bench-pyhpc: setup ## An ocean model's kernels, in JAX against XLA:CPU, in PyTorch against eager mode and inductor: FROM=<checkout of dionhaefner/pyhpc-benchmarks> [SIZES=4096,65536] [DOORS=jax,torch] [FILTER=mixing] [OUT=pyhpc.jsonl]
	@$(BIN)/python -m benchmarks.pyhpc "$(FROM)" --filter "$(FILTER)" $(if $(SIZES),--sizes "$(SIZES)") $(if $(DOORS),--doors "$(DOORS)") $(if $(OUT),--out "$(OUT)")

bench-jax-suite: setup ## JAX's own benchmarks, of eight devices too, xloom as its CPU and jaxlib's: FROM=<checkout of jax-ml/jax> [FILTER=pjit] [OUT=jax.json]
	@$(BIN)/python -m benchmarks.jax_suite "$(FROM)" --filter "$(FILTER)" $(if $(OUT),--out "$(OUT)")

bench-models: models ## Whole models against inductor, ONNX Runtime and OpenVINO: [MODELS=resnet50,vit_b] [BATCH=1,8] [DTYPES=f32,bf16] [OUT=models.jsonl]
	@$(MODELS_VENV)/bin/python -m benchmarks.models --models "$(MODELS)" --batch $(or $(BATCH),1) \
	  --dtypes $(or $(DTYPES),f32) $(if $(OUT),--out "$(OUT)")

bench-export: models ## Programs compiled ahead of time against AOTInductor and ONNX Runtime: size, load time, latency: [MODELS=resnet50,decoder_100m]
	@$(MODELS_VENV)/bin/python -m benchmarks.exported --models "$(MODELS)"

bench-threads: setup ## Each program with one thread and with all: [SET=programs|loops|npbench-S|npbench-M] [FROM=<checkout of spcl/npbench>] [FILTER=matmul] [OUT=threads.jsonl]
	@$(BIN)/python -m benchmarks.threads $(if $(SET),--set $(SET)) --from "$(FROM)" --filter "$(FILTER)" $(if $(OUT),--out "$(OUT)")

bench-workloads: libraries ## Whole workloads with JAX's libraries, xloom as JAX's CPU against jaxlib's: [ONLY=nuts,lbfgs] [ROUNDS=3]
	@$(LIBRARIES)/bin/python -m benchmarks.workloads --only "$(ONLY)" --rounds $(or $(ROUNDS),3)

bench-checks: setup ## What checks of values cost, each program with and without: [FILTER=matmul] [CHECK=nan,inf,oob] [OUT=checks.jsonl, to go on from]
	@$(BIN)/python -m benchmarks.checks --filter "$(FILTER)" $(if $(CHECK),--check $(CHECK)) $(if $(OUT),--out "$(OUT)")

bench-regression: setup ## A small set of programs against another version: AGAINST=<commit, checkout or wheel>; which have lost more than 10 %? [FILTER=matmul] [OUT=regression.jsonl]
	@$(BIN)/python -m benchmarks.regression --against "$(AGAINST)" --filter "$(FILTER)" $(if $(OUT),--out "$(OUT)")

bench-constants: setup ## What tuned constants decide, as they are against half and double; writes benchmarks/CONSTANTS.md: [ONLY=tile,...]
	@$(BIN)/python -m benchmarks.constants --only "$(ONLY)"

bench-collectives: setup ## Collectives between processes against MPI's own and XLA:CPU's with Gloo: [PROCESSES=2] [OPERATIONS=psum,permute] [SIZES=8,65536]
	@$(BIN)/python -m benchmarks.collectives --processes $(or $(PROCESSES),2) $(if $(OPERATIONS),--operations $(OPERATIONS)) \
	  $(if $(SIZES),--sizes $(SIZES))

bench-distributed-scaling: setup ## How long processes take to begin, and a model of training in up to 64: [START=2,4,8,16] [LATENCY=us] [BANDWIDTH=GB/s]
	@$(BIN)/python -m benchmarks.distributed_scaling $(if $(START),--start $(START)) \
	  $(if $(LATENCY),--latency $(LATENCY)) $(if $(BANDWIDTH),--bandwidth $(BANDWIDTH))

bench-distributed-training: setup ## Are losses those of one process in 2 and 4; time beside Gloo on the CPU: [PROCESSES=1,2,4] [STEPS=200] [MODELS=mlp,transformer] [DOORS=pjit,shard_map,ddp,fsdp2,tp] [OUT=runs.jsonl, to go on from]
	@$(BIN)/python -m benchmarks.distributed_training --steps $(or $(STEPS),200) \
	  $(if $(PROCESSES),--processes $(PROCESSES)) $(if $(MODELS),--models $(MODELS)) $(if $(DOORS),--doors $(DOORS)) \
	  $(if $(OUT),--out "$(OUT)")

judge-stablehlo: setup ## StableHLO's own suites: FROM=<checkout of openxla/stablehlo> [SUITE=testdata|interpret|math|quantized] [ON=cpu|emulator]
	@$(BIN)/python -m tests.judges.stablehlo --from "$(FROM)" --suite $(or $(SUITE),testdata) --on $(or $(ON),interpreter)

judge-hlo-text: setup ## HLO text and proto of XLA's own tests against jaxlib: FROM=<checkout of openxla/xla>
	@$(BIN)/python -m tests.judges.hlo_text --from "$(FROM)"

judge-fuzz: setup ## Mutants of real modules, text and proto: [COUNT=20000] [FROM=<checkout of openxla/xla>]
	@$(BIN)/python -m tests.judges.fuzz --count $(or $(COUNT),20000) $(if $(FROM),--from "$(FROM)")

judge-malformed: setup ## Mutants of every format that is read, in children: [COUNT=500] [SEED=0] [FORMATS=cache,npy,...]
	@$(BIN)/python -m tests.judges.malformed --count $(or $(COUNT),500) --seed $(or $(SEED),0) \
	  $(if $(FORMATS),--formats $(FORMATS))

judge-differential: setup ## Random programs, ours against: [COUNT=10000] [SEED=0] [AGAINST=jaxlib|interpreter|both] [JUDGE=cpu|emulator|interpreter]
	@$(BIN)/python -m tests.judges.differential --count $(or $(COUNT),10000) --seed $(or $(SEED),0) \
	  --against $(or $(AGAINST),both) --judge $(or $(JUDGE),cpu)

judge-composed: setup ## Random programs of JAX against XLA:CPU: [COUNT=1000] [SEED=0] [TYPES=f64|all] [JOBS=2] [OUT=composed.jsonl, to go on from]
	@$(BIN)/python -m tests.judges.composed --count $(or $(COUNT),1000) --seed $(or $(SEED),0) --types $(or $(TYPES),f64) \
	  --jobs $(or $(JOBS),2) $(if $(OUT),--out "$(OUT)")

judge-stateful: setup ## Random programs of loops, branches, aliases, layouts and custom calls: [COUNT=20000] [SEED=0] [OUT=stateful.jsonl, to go on from]
	@$(BIN)/python -m tests.judges.stateful --count $(or $(COUNT),20000) --seed $(or $(SEED),0) $(if $(OUT),--out "$(OUT)")

judge-reduction: setup ## Faults planted in modules of 500 to 10,000 instructions, reduced: [COUNT=50] [SEED=0] [OUT=reduction.jsonl, to go on from]
	@$(BIN)/python -m tests.judges.reduction --count $(or $(COUNT),50) --seed $(or $(SEED),0) $(if $(OUT),--out "$(OUT)")

judge-first-difference: setup ## Wrong values planted in backends, native code and passes, found at their instruction: [COUNT=30] [SEED=0]
	@$(BIN)/python -m tests.judges.first_difference --count $(or $(COUNT),30) --seed $(or $(SEED),0)

judge-first-nan: setup ## NaNs planted in random programs, found at their instruction by native code: [COUNT=30] [SEED=0]
	@$(BIN)/python -m tests.judges.first_nan --count $(or $(COUNT),30) --seed $(or $(SEED),0)

judge-shared-code: setup ## Is shared and kept code what would be made anew? [COUNT=400] [FROM=<checkout of openxla/stablehlo>]
	@$(BIN)/python -m tests.judges.shared_code --count $(or $(COUNT),400) $(if $(FROM),--from "$(FROM)")

judge-gpu-build: judges ## What judge-gpu runs, made on any machine: programs, values, machine code in build/judge_gpu: [TARGET=sm_90a] [SHARE=1]
	@$(BIN)/python -m tests.judges.gpu --build --target $(or $(TARGET),sm_90a) --share $(or $(SHARE),1)

judge-gpu: setup ## A GPU in less than ten minutes, of what judge-gpu-build made: values, doors, sanitizer, speed as JSON: [ON=emulator] [TARGET=sm_90a] [ONLY=products,benchmarks] [MINUTES=9]
	@$(BIN)/python -m tests.judges.gpu --on $(or $(ON),gpu) --target $(or $(TARGET),sm_90a) --minutes $(or $(MINUTES),9) --only "$(ONLY)"

judge-embedded: setup ## Each operation of the sweep on computed values, in a loop, mapped and derived: [COUNT=3000, spread over all] [JOBS=2] [OUT=embedded.jsonl]
	@$(BIN)/python -m tests.judges.composed --types embedded --count $(or $(COUNT),3000) --jobs $(or $(JOBS),2) \
	  $(if $(OUT),--out "$(OUT)")

judge-jax: judges ## JAX's own tests against XLA:CPU: FROM=<checkout at jax-v0.10.2> [SAMPLE=25] [SEED=0] [FILES=lax_test,...|all] [DUT=cpu|xloom] [AS_CPU=1]
	@$(BIN)/python -m tests.judges.jax_tests --from "$(FROM)" --sample $(or $(SAMPLE),25) --seed $(or $(SEED),0) --dut $(or $(DUT),cpu) \
	  $(if $(AS_CPU),--as-cpu) $(if $(FILES),--files $(FILES)) --out build/jax_tests

judge-op-db: judges ## torch's op_db against the CPU: [DOOR=table|compile|device] [FILTER=conv] [SAMPLES=8] [DRAWN=2 of each operator, SEED=0, on computed, strided and empty tensors] [OUT=op_db.jsonl]
	@$(BIN)/python -m tests.judges.op_db --door $(or $(DOOR),table) --filter "$(FILTER)" --samples $(or $(SAMPLES),8) \
	  --drawn $(or $(DRAWN),0) --seed $(or $(SEED),0) $(if $(DRAWN),--dtypes f32,i64,bool,c64,bf16,f16,f64) \
	  --out $(or $(OUT),op_db-$(or $(DOOR),table).jsonl)

judge-torch-composed: setup ## Random torch programs and views against the CPU: [DOOR=device|compile] [COUNT=5000] [FIRST=0] [SEED=0] [JOBS=1] [OUT=records.jsonl]
	@$(BIN)/python -m tests.judges.torch_composed --door $(or $(DOOR),device) --count $(or $(COUNT),5000) \
	  --first $(or $(FIRST),0) --seed $(or $(SEED),0) --jobs $(or $(JOBS),1) $(if $(OUT),--out "$(OUT)")

judge-torch-suites: judges ## torch's own suites against the CPU: FROM=<suites adapted to a device> [SAMPLE=60] [SEED=0] [FILES=test_torch,...] [ALONE=1 for pytorch/xla's] [DEFAULT_DEVICE=1]
	@$(BIN)/python -m tests.judges.torch_suites --from "$(FROM)" --sample $(or $(SAMPLE),60) --seed $(or $(SEED),0) $(if $(ALONE),--alone) \
	  $(if $(DEFAULT_DEVICE),--default-device) \
	  $(if $(FILES),--files $(FILES)) --out build/torch_suites$(if $(ALONE),_xla)

judge-models: models ## Models of transformers, timm and diffusers by both doors against eager CPU: [MODELS=bert,timm/] [DOORS=compile,device] [DTYPES=f32,bf16] [SPEED=1] [OUT=models.jsonl, to go on from]
	@$(MODELS_VENV)/bin/python -m tests.judges.models --models "$(MODELS)" --doors $(or $(DOORS),compile,device) \
	  --dtypes $(or $(DTYPES),f32) $(if $(SPEED),--speed) $(if $(OUT),--out "$(OUT)")

judge-custom-calls: judges ## Custom calls by every ABI from every source, their cost, outline and expand: [SECONDS=15] [PROGRAMS=2500]
	@$(BIN)/python -m tests.judges.custom_calls --seconds $(or $(SECONDS),15) --programs $(or $(PROGRAMS),2500)

judge-patterns: judges ## What the library's patterns find in JAX, flax, equinox, optax, PyTorch and transformers: [SOURCE=flax,torch] [PATTERN=attention] [OUT=patterns.jsonl, to go on from]
	@$(BIN)/python -m tests.judges.patterns --from "$(SOURCE)" --pattern "$(PATTERN)" $(if $(OUT),--out "$(OUT)")

judge-pattern-models: judges ## What each pattern of the library finds in 20 models: [MODEL=gpt2] [OUT=models.jsonl, to go on from]
	@$(BIN)/python -m tests.judges.pattern_models --model "$(MODEL)" $(if $(OUT),--out "$(OUT)")

judge-distributed: judges ## JAX's tests of several processes against XLA:CPU: FROM=<checkout at jax-v0.10.2> [FILES=array_test,...] [PROCESSES=4]; then faults, each [TIMES=20], and our own long tests
	@$(BIN)/python -m tests.judges.distributed --from "$(FROM)" --processes $(or $(PROCESSES),4) \
	  $(if $(FILES),--files $(FILES)) --out build/distributed
	@$(BIN)/python -m tests.judges.faults --times $(or $(TIMES),20)
	@$(BIN)/python -m pytest -n 2 --every-case tests/distributed

judge-torch-distributed: judges ## torch's distributed tests against Gloo on the CPU, those of its wheel and: [FROM=<checkout of suites adapted to a device>] [XLA=<pytorch/xla's folder test>] [SAMPLE=75]
	@$(BIN)/python -m tests.judges.torch_distributed --sample $(or $(SAMPLE),75) \
	  $(if $(FROM),--from "$(FROM)") $(if $(XLA),--xla "$(XLA)") --out build/torch_distributed

judge-wheel: judges ## Wheel and source distribution, built twice, and installed into clean environments that run their main job: [ONLY=bare,jax]
	@$(BIN)/python -m tests.judges.wheel --only "$(ONLY)"

paths: judges ## The first five minutes of each kind of user, in clean environments with a clock: [ONLY=jax,student] [WHEEL=dist/xloom.whl]
	@$(BIN)/python -m tests.judges.paths --only "$(ONLY)" --wheel "$(WHEEL)"

pictures: setup ## The pictures of docs: speed.svg of benchmarks/RESULTS.md, and those of docs/notebooks.md, by Chromium
	@$(BIN)/python -m benchmarks.family_chart && JAX_PLATFORMS=cpu $(BIN)/python -m docs.site.notebook_pictures

soak: setup ## Training, dispatches, compilations, processes, cancelled runs and full disks for MINUTES=60: what grows, is lost or left behind? [ONLY=training,processes] [OUT=soak.json]
	@$(BIN)/python -m tests.judges.soak --minutes $(or $(MINUTES),60) --only "$(ONLY)" $(if $(OUT),--out "$(OUT)")

judge-libraries: libraries ## Libraries' own suites against the CPU: FROM=<folder of checkouts> [SAMPLE=300] [SEED=0] [ONLY=optax,lineax] [AS_CPU=1] [OUT=build/libraries, to go on from]
	@$(LIBRARIES)/bin/python -m tests.judges.libraries --from "$(FROM)" --sample $(or $(SAMPLE),300) --seed $(or $(SEED),0) \
	  --libraries "$(ONLY)" $(if $(AS_CPU),--as-cpu) --out $(or $(OUT),build/libraries)

clean: ## Remove what make made
	rm -rf $(VENV) $(LIBRARIES) $(MODELS_VENV) $(DOCS_VENV) build/site .pytest_cache .ruff_cache src/xloom/compilation_cache/kernels
