# becalm's errands. `make help` lists them.

PREFIX ?= /usr/local
DESTDIR ?=

# One static binary, for tests as well: what is tested is what ships. The target is named, even
# though it is this machine's own, because static linking must not reach Rust's procedural macros,
# which are libraries.
TARGET := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
export CARGO_BUILD_TARGET := $(TARGET)
export RUSTFLAGS := $(RUSTFLAGS) -C target-feature=+crt-static

BUILT := $(or $(CARGO_TARGET_DIR),target)/$(TARGET)/release/becalm

# A command with a story to tell. Another: make demo DEMO='emacs --version'.
ifneq ($(shell command -v python3),)
DEMO ?= python3 -c 'import asyncio, email, http.client, json, unittest.mock'
else
DEMO ?= bash -c 'for tool in /usr/bin/*; do basename "$$tool"; done >/dev/null'
endif

.DEFAULT_GOAL := help
.PHONY: help demo build test bench install docs clean

help: ## list these errands
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: build ## build, and check a real command of this machine
	@echo
	$(BUILT) check -- $(DEMO)

build: ## build the static binary
	cargo build --release --locked --package becalm
	@! readelf --program-headers --wide $(BUILT) | grep -q INTERP || \
		{ echo "make: $(BUILT) is not static" >&2; exit 1; }
	@echo "built $(BUILT)"

test: ## install what tests need, then check the format, lint, and run every test
	setup/install-test-tools
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	@# Tests press Ctrl-C, to which what a script starts with & is deaf.
	env --default-signal=HUP,INT,QUIT cargo test --locked --workspace --no-fail-fast

bench: build ## measure becalm against its peers
	setup/install-test-tools --bench
	for bench in bench/*.sh; do BECALM=$(abspath $(BUILT)) "$$bench" || exit; done

install: build ## install the binary below PREFIX (DESTDIR is put before it)
	install -D -m 755 $(BUILT) $(DESTDIR)$(PREFIX)/bin/becalm

docs: ## build the book (needs mdbook)
	mdbook build docs

clean: ## remove what was built
	cargo clean
