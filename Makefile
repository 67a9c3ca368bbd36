# accessorysetupd: build, run, test, install. `make help` lists what there is.

PREFIX ?= /usr/local
DESTDIR ?=
SWIFT ?= swift
BIN := .build/debug
RELEASE := .build/release
# Release builds carry the Swift standard library: a gateway needs no toolchain, and idle memory is lower.
RELEASE_FLAGS := -c release --static-swift-stdlib
PICK ?=
PROGRAMS := accessorysetupd accessoryctl accessory-sim

.PHONY: help deps build release demo test lab bench lint format install uninstall clean

help:
	@echo "make demo [PICK=\"Pink Dice\"]  the main job on simulated radios, in this terminal"
	@echo "make test                     all tests but the lab's"
	@echo "make lab                      the radio lab: a real kernel and a real bluetoothd under qemu"
	@echo "make bench                    the benchmark (several minutes)"
	@echo "make build | release          debug build | release build"
	@echo "make install DESTDIR= PREFIX= installs a release build"
	@echo "make lint | format            checks | applies the formatting"

deps:
	@./Tests/Support/deps

build: deps
	$(SWIFT) build

release: deps
	$(SWIFT) build $(RELEASE_FLAGS) --product accessorysetupd
	$(SWIFT) build $(RELEASE_FLAGS) --product accessoryctl
	$(SWIFT) build $(RELEASE_FLAGS) --product accessory-sim

demo: build
	@PICK="$(PICK)" BIN=$(BIN) Tests/Demo/run

test: build
	$(SWIFT) test
	BIN=$(BIN) /usr/bin/python3 -m unittest discover -s Tests/API -t Tests/API
	BIN=$(BIN) /usr/bin/python3 -m unittest discover -s Tests/Simulator -t Tests/Simulator
	PICK="Pink Dice" BIN=$(BIN) Tests/Demo/run

lab: build
	Tests/Lab/run --bin $(BIN)

bench: release
	$(SWIFT) build $(RELEASE_FLAGS) --product advert-baseline
	$(SWIFT) build $(RELEASE_FLAGS) --product gatt-baseline
	/usr/bin/python3 Tests/Bench/run $(RELEASE)

lint:
	$(SWIFT) format lint --strict --recursive Sources Tests Package.swift
	Tests/Support/check-imports

format:
	$(SWIFT) format --in-place --recursive Sources Tests Package.swift

install: release
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/accessory-setup/scenarios
	install -m 755 $(addprefix $(RELEASE)/,$(PROGRAMS)) $(DESTDIR)$(PREFIX)/bin
	install -m 644 Tests/Scenarios/dice.json $(DESTDIR)$(PREFIX)/share/accessory-setup/scenarios/dice.json
	# The directories that D-Bus, systemd and the daemon look into are the system's, whatever PREFIX is.
	install -d $(DESTDIR)/usr/share/dbus-1/system.d $(DESTDIR)/usr/share/dbus-1/system-services $(DESTDIR)/lib/systemd/system
	install -d $(DESTDIR)/usr/share/accessory-setup/apps $(DESTDIR)/etc/accessory-setup/apps
	install -m 644 dbus-policy/org.accessorysetup1.conf $(DESTDIR)/usr/share/dbus-1/system.d
	sed 's|@PREFIX@|$(PREFIX)|g' systemd/accessorysetupd.service > $(DESTDIR)/lib/systemd/system/accessorysetupd.service
	sed 's|@PREFIX@|$(PREFIX)|g' systemd/org.accessorysetup1.service > $(DESTDIR)/usr/share/dbus-1/system-services/org.accessorysetup1.service
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(RELEASE)/accessoryctl --generate-completion-script bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/accessoryctl
	$(RELEASE)/accessoryctl --generate-completion-script zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_accessoryctl
	$(RELEASE)/accessoryctl --generate-completion-script fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/accessoryctl.fish

uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,$(PROGRAMS))
	rm -rf $(DESTDIR)$(PREFIX)/share/accessory-setup/scenarios
	rm -f $(DESTDIR)/usr/share/dbus-1/system.d/org.accessorysetup1.conf $(DESTDIR)/lib/systemd/system/accessorysetupd.service
	rm -f $(DESTDIR)/usr/share/dbus-1/system-services/org.accessorysetup1.service
	rm -f $(DESTDIR)$(PREFIX)/share/bash-completion/completions/accessoryctl $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_accessoryctl
	rm -f $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/accessoryctl.fish

clean:
	rm -rf .build .lab
