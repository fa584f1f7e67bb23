# becalm's errands. `make help` lists them.

PREFIX ?= /usr/local
DESTDIR ?=

# One static binary, for tests as well: what is tested is what ships. The target is named, even
# though it is this machine's own, because static linking must not reach Rust's procedural macros,
# which are libraries.
TARGET := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
export CARGO_BUILD_TARGET := $(TARGET)
# Once, also where make calls make: other flags are another build.
ifeq ($(findstring +crt-static,$(RUSTFLAGS)),)
export RUSTFLAGS := $(RUSTFLAGS) -C target-feature=+crt-static
endif

# Where packages go; those of tests are elsewhere.
PACKAGES ?= dist
BUILT := $(or $(CARGO_TARGET_DIR),target)/$(TARGET)

# A command with a story to tell. Another: make demo DEMO='emacs --version'.
ifneq ($(shell command -v python3),)
DEMO ?= python3 -c 'import asyncio, email, http.client, json, unittest.mock'
else
DEMO ?= bash -c 'for tool in /usr/bin/*; do basename "$$tool"; done >/dev/null'
endif

.DEFAULT_GOAL := help
PHASES := tools format crates compile suite builds installed arm packages
.PHONY: help demo static build test $(PHASES) cross test-arm package bench install docs clean

help: ## list these errands
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: ## build quickly, and check a real command of this machine
	cargo build --profile demo --locked --package becalm
	@$(MAKE) --no-print-directory static PROGRAM=$(BUILT)/demo/becalm
	@echo
	$(BUILT)/demo/becalm check -- $(DEMO)

build: ## build the static binary that is installed, with all optimisation
	cargo build --release --locked --package becalm
	@$(MAKE) --no-print-directory static PROGRAM=$(BUILT)/release/becalm
	@echo "built $(BUILT)/release/becalm"

static:
	@! readelf --program-headers --wide $(PROGRAM) | grep -q INTERP || \
		{ echo "make: $(PROGRAM) is not static" >&2; exit 1; }

test: ## install what tests need, then check the format, lint, and run every test
	@for phase in $(PHASES); do \
		began=$$(date +%s); \
		$(MAKE) --no-print-directory PACKAGES=$(BUILT)/packages $$phase || exit; \
		took="$$took $$phase $$(( $$(date +%s) - began )) s,"; \
	done; echo "took:$${took%,}"

tools:
	setup/install-test-tools

format:
	cargo fmt --all --check

# That each crate can be published. That what is packaged compiles, too, would build all once more.
crates:
	cargo package --locked --workspace --exclude becalm-testkit --no-verify --allow-dirty --quiet

# clippy-driver compiles as rustc does, and lints on the way: `cargo clippy` would check all that is
# compiled here a second time.
compile suite installed: export RUSTC_WORKSPACE_WRAPPER := clippy-driver
compile suite installed: export CLIPPY_ARGS := -D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__

compile:
	cargo test --locked --workspace --no-run

suite:
	@# Tests press Ctrl-C, to which what a script starts with & is deaf; and Modules' Tcl reads names of
	@# files by the locale.
	LANG=$${LANG:-C.UTF-8} env --default-signal=HUP,INT,QUIT cargo test --locked --workspace --no-fail-fast

# The last step of a build with all optimisation is one processor's work, some minutes long: what the other ones
# do meanwhile is build for Arm.
builds:
	@tests/arm/built >/dev/null & other=$$!; \
	$(MAKE) --no-print-directory build; status=$$?; \
	wait $$other && exit $$status

# What is installed (`make build`) is optimised as no build for tests is: what that alone breaks is
# seen here.
installed:
	LANG=$${LANG:-C.UTF-8} BECALM_UNDER_TEST=$(abspath $(BUILT)/release/becalm) \
		env --default-signal=HUP,INT,QUIT cargo test --locked --workspace --no-fail-fast \
		--test record -- kill letting_go metadata_only usual

# Of the binary that `make build` makes, and of another processor's: by default what is tried there. Both are
# built here, if they are not of today's sources.
packages: OTHER ?= tried
packages: build
	other='$(OTHER)'; [ "$$other" != tried ] || other=$$(tests/arm/built) || exit; \
	packaging/package $(PACKAGES) $(BUILT)/release/becalm $$other
	packaging/test $(PACKAGES)

package: ## build every package of HEAD into dist, and install each (CROSS=yes: for Arm, too)
	setup/install-test-tools
	rm -rf $(BUILT)/head && mkdir -p $(BUILT)/head
	git archive HEAD | tar -x -C $(BUILT)/head
	@# Not what lies about in the working tree, and with no path of this machine in it.
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) CARGO_TARGET_DIR=$(abspath $(BUILT)/..) \
		RUSTFLAGS="$$RUSTFLAGS --remap-path-prefix=$(abspath $(BUILT)/head)=becalm --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=cargo" \
		$(MAKE) --no-print-directory -C $(BUILT)/head build $(if $(CROSS),cross) packages PACKAGES=$(abspath $(PACKAGES)) \
		OTHER=$(if $(CROSS),target/arm/aarch64-unknown-linux-gnu/release/becalm)

cross: ## build the static binary for 64-bit Arm
	setup/arm/toolchain env CARGO_TARGET_DIR=/src/target/arm cargo build --release --locked --package becalm
	@echo "built target/arm/aarch64-unknown-linux-gnu/release/becalm"

arm:
	BECALM_UNDER_TEST=$(abspath $(BUILT)/release/becalm) tests/arm/smoke

test-arm: build arm ## run tests on a 64-bit Arm machine in emulation
	tests/arm/run

bench: build ## measure becalm against its peers
	setup/install-test-tools --bench
	for bench in bench/*.sh; do BECALM=$(abspath $(BUILT)/release/becalm) "$$bench" || exit; done

install: build ## install the binary, its pages and completions below PREFIX (DESTDIR is put before it)
	packaging/stage $(BUILT)/release/becalm $(BUILT)/stage
	mkdir -p $(DESTDIR)$(PREFIX)
	cp -r $(BUILT)/stage/. $(DESTDIR)$(PREFIX)

docs: ## build the book (needs mdbook)
	mdbook build docs

clean: ## remove what was built
	cargo clean
