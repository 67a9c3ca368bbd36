# accessorysetupd: build, run, test, install. `make help` lists the targets.

PREFIX ?= /usr/local
DESTDIR ?=
SWIFT ?= swift
BIN := .build/debug
RELEASE := .build/release
# Release builds carry the Swift standard library: a gateway needs no toolchain, and idle memory is lower.
# lld packs relocations: a tenth of a program (glibc 2.36 and later, which the packages require). A section for each function, none
# exported: uncalled functions are left out, and identical ones are merged (Docs/Decisions/0017). libstdc++, which the runtime
# needs little of, is linked statically where it is found, and so is libsodium, whose name differs between releases of Debian.
STATIC := .build/static
SMALL := -c release --static-swift-stdlib -Xswiftc -use-ld=lld -Xlinker -z -Xlinker pack-relative-relocs \
	-Xswiftc -Xfrontend -Xswiftc -function-sections -Xlinker --no-export-dynamic -Xlinker --icf=all
RELEASE_FLAGS := $(SMALL) -Xlinker -L$(CURDIR)/$(STATIC) --pkg-config-path $(CURDIR)/$(STATIC)
# The names of all characters, which the runtime carries along and no program asks for (Sources/ProgramSupport/CharacterNames.swift).
NAMELESS := -Xlinker --wrap=_swift_stdlib_getScalarName
# Code that runs at the start lies together: fewer pages of the program are in memory (Docs/Decisions/0017).
ordered = -Xlinker --symbol-ordering-file=$(CURDIR)/Sources/$(1)/start-order.txt -Xlinker --no-warn-symbol-ordering
DAEMON_FLAGS := $(RELEASE_FLAGS) $(NAMELESS) $(call ordered,accessorysetupd)
# Where packages are made, and the emulator for their programs.
DEBS := .build/deb
EMULATOR :=
ARM64_DEBS := .build/deb-arm64
ARM64 := .build/arm64/aarch64-unknown-linux-gnu/release
PICK ?=
PART ?= 1/1
DEB ?=
MINUTES ?= 15
TARGET ?=
# Of the lab: trixie or forky, instead of this machine's release; broker, instead of daemon; anything, for a few checks only.
ROOT ?=
BUS ?=
SAMPLE ?=
# Of the lab's checks: one group (wifi) or a pattern over the names (wifi.joins_*).
ONLY ?=
# By itself swift-testing begins all tests at once: on a busy machine each stands still for longer than a call may take.
FEW_AT_ONCE := SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=6
# How many of its guests run side by side.
AT_ONCE ?= 1
# The simulator is in accessoryctl, under its own name.
PROGRAMS := accessorysetupd accessoryctl accessory-door accessory-fleet
# Each has a unit and a user.
SERVICES := accessorysetupd accessory-door accessory-fleet
# With the unit that the fleet's agent starts as root.
UNITS := $(SERVICES:=.service) accessory-fleet-lockdown@.service
# systemd makes the directory of the fleet's agent.
TMPFILES := accessorysetupd accessory-door
VERSION := $(shell sed -n 's/.* current = "\(.*\)"/\1/p' Sources/AccessoryModel/Version.swift)
# The date of the sources, not of the build.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

# D-Bus, systemd and the daemon search system directories, regardless of PREFIX.
DATADIR := /usr/share
UNITDIR ?= /usr/lib/systemd/system
SYSUSERSDIR ?= /usr/lib/sysusers.d
TMPFILESDIR ?= /usr/lib/tmpfiles.d
MANDIR ?= $(PREFIX)/share/man
BASHDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
FISHDIR ?= $(PREFIX)/share/fish/vendor_completions.d
# Cockpit's directory of pages; the last part is the page's name in addresses.
PAGEDIR := $(DATADIR)/cockpit/accessories
METAINFO := org.accessorysetup1.cockpit.metainfo.xml

.PHONY: help deps build release man check-man docc demo web fleet test kills damage air answers calls outside lab lab-all fresh bench bench-door bench-presence fuzz soak soak-lab growth fleet-simulation start-order lint format install install-files uninstall deb pack deb-arm64 check-sizes clean

help:
	@echo "make demo [PICK=\"Pink Dice\"]  a set-up on simulated radios, in this terminal"
	@echo "make web [PICK=\"Pink Dice\"]   the same in the browser at hand: the page for Cockpit (installs cockpit-ws)"
	@echo "make fleet                    three gateways, a broker and an operator, on simulated radios"
	@echo "make test                     all tests except the lab's (installs bleak and BlueZ' tools)"
	@echo "make kills [PART=I/N] [MORE=] the daemon killed at each effect (many minutes, or a part)"
	@echo "make lab [DEB=\"FILE …\"]      the radio lab: a real kernel and a real bluetoothd under qemu; then make fresh"
	@echo "                              ONLY=wifi: one group; SAMPLE=1: a check of each group; AT_ONCE=2: faster"
	@echo "                              ROOT=trixie|forky [BUS=broker]: on that release of Debian"
	@echo "make lab-all                  the lab on every release, and Docs/Platforms.md of that (hours)"
	@echo "make fresh [ROOT=trixie]      the documents' commands on a fresh machine (as root)"
	@echo "                              ALSO=\"test arm64\": make test and make deb-arm64, too"
	@echo "make answers                  every wrong answer to every call that the daemon makes (many minutes)"
	@echo "make calls                    writes Docs/Calls.md anew, after changes to the list of calls"
	@echo "make air [MINUTES=60]         ten thousand accessories with changing addresses, five thousand adverts a second"
	@echo "make damage [SEEDS=500]       the daemon on stores that were damaged by chance"
	@echo "make outside                  builds and runs the sample as a package that depends on this one by version"
	@echo "make bench                    the benchmark (several minutes)"
	@echo "make fuzz [MINUTES=15] [TARGET=]  every reader of foreign input, under libFuzzer"
	@echo "make soak HOURS=|MINUTES= [SEED=]  a random life with all invariants, for so long (Tests/Soak)"
	@echo "make soak-lab HOURS=|MINUTES= [SEED=]  the same on a real bluetoothd, in the lab"
	@echo "make growth [SHORT=1]         the memory that each kind of request leaves behind"
	@echo "make fleet-simulation [GATEWAYS=10000] [SEED=] [MINUTES=]  a fleet, its broker and all faults, in one process"
	@echo "make start-order              records the functions that the daemon and the fleet's agent run at their start, for the linker"
	@echo "make build | release          debug build | release build"
	@echo "make install DESTDIR= PREFIX= installs a release build (make uninstall)"
	@echo "make deb                      Debian packages, in .build/deb"
	@echo "make deb-arm64                the same for arm64, made here (as root; the first time 1.5 GB are fetched)"
	@echo "make check-sizes              whether the packages of make deb have grown too large"
	@echo "make man | check-man          the manual pages, in .build/man | holds them against --help"
	@echo "make docc                     the reference of the modules for apps, in .build/docc; warnings are errors"
	@echo "make lint | format            checks | applies the formatting"

deps:
	@./Tests/Support/deps

build: deps
	$(SWIFT) build

# SwiftPM does not know that the linker reads the list.
release: deps $(STATIC)
	@for each in accessorysetupd accessory-fleet; do [ ! Sources/$$each/start-order.txt -nt $(RELEASE)/$$each ] || rm -f $(RELEASE)/$$each; done
	$(SWIFT) build $(DAEMON_FLAGS) --product accessorysetupd
	$(SWIFT) build $(RELEASE_FLAGS) $(NAMELESS) --product accessoryctl
	$(SWIFT) build $(RELEASE_FLAGS) $(NAMELESS) --product accessory-door
	$(SWIFT) build $(RELEASE_FLAGS) $(NAMELESS) $(call ordered,accessory-fleet) --product accessory-fleet

$(STATIC): | deps
	install -d $@
	library=$$($$(dirname $$(readlink -f $$(command -v $(SWIFT))))/clang -print-file-name=libstdc++.a) && \
		if [ -f "$$library" ]; then ln -sf "$$library" $@/libstdc++.a; fi
	if [ -f "$$(pkg-config --variable=libdir libsodium)/libsodium.a" ]; then \
		sed 's/-lsodium/-l:libsodium.a/' "$$(pkg-config --variable=pcfiledir libsodium)/libsodium.pc" > $@/libsodium.pc; fi

# Run after changes to the start of the daemon, or of the fleet's agent.
start-order: release build
	@Tests/Support/deps valgrind
	@Tests/Support/deps-test
	for each in accessorysetupd accessory-fleet; do \
		Tests/Bench/start-order $(RELEASE) $$each > Sources/$$each/start-order.new && mv Sources/$$each/start-order.new Sources/$$each/start-order.txt || exit; \
	done

demo: build
	@PICK="$(PICK)" BIN=$(BIN) Tests/Demo/run

web: build
	@PICK="$(PICK)" BIN=$(BIN) Tests/Demo/web

fleet: build
	@BIN=$(BIN) Tests/Demo/fleet

test: build
	@Tests/Support/deps-test
	@Tests/Support/deps-clients
	@Tests/Support/deps-web
	$(FEW_AT_ONCE) $(SWIFT) test
	BIN=$(BIN) Tests/Support/in-memory Tests/Support/run-side-by-side Tests/API Tests/Clients Tests/Simulator Tests/FleetSimulation Tests/Field Tests/Attacks Tests/Answers Tests/Kills Tests/Damage Tests/Resources Tests/Web
	PICK="Pink Dice" BIN=$(BIN) Tests/Demo/run
	BIN=$(BIN) Tests/Demo/fleet

kills: build
	@Tests/Support/deps-test
	BIN=$(BIN) Tests/Support/in-memory /usr/bin/python3 -W ignore Tests/Kills/run --part $(PART) $(MORE)

SEEDS ?= 500
# A crowded and hostile air (Tests/Soak/README.md); an hour is MINUTES=60.
# As people get it: a debug build that other programs slow down does not read so many.
air: build release
	install -d .build/air
	ln -sf $(addprefix $(CURDIR)/,$(addprefix $(RELEASE)/,$(PROGRAMS)) $(BIN)/dice) .build/air
	ln -sf accessoryctl .build/air/accessory-sim
	BIN=.build/air Tests/Support/in-memory Tests/Soak/air --minutes $(MINUTES)

damage: build
	@Tests/Support/deps-test
	cd Tests/Damage && BIN=$(CURDIR)/$(BIN) SEEDS=$(SEEDS) ../Support/in-memory /usr/bin/python3 -W ignore -m unittest test_damage

outside: build
	BIN=$(BIN) Tests/Outside/run

# With the packages in DEB, if they are given, else with some that are built now. The machine that builds from source is no
# guest of the lab's, so it comes last, and where all is wanted.
lab: build
	@Tests/Support/deps-clients
	$(if $(DEB),,$(MAKE) deb)
	Tests/Lab/run --bin $(BIN) --deb $(or $(DEB),.build/deb/*.deb) $(if $(ROOT),--root $(ROOT)) $(if $(BUS),--bus $(BUS)) $(if $(SAMPLE),--sample) \
		$(if $(ONLY),--only '$(ONLY)$(if $(findstring .,$(ONLY)),,.*)') --at-once $(AT_ONCE)
	$(if $(ONLY)$(SAMPLE)$(ROOT)$(BUS),,Tests/Lab/fresh bookworm)

# All checks on every release, one after the other: hours. A failed release does not keep the others from running.
lab-all: build
	@Tests/Support/deps-clients
	$(MAKE) deb
	@failed=0; run() { results=.build/lab/$$1.json; shift; Tests/Lab/run --bin $(BIN) --deb .build/deb/*.deb --at-once $(AT_ONCE) --results $$results "$$@" || failed=1; }; \
		rm -rf .build/lab; \
		run 1-bookworm; \
		run 2-trixie --root trixie; \
		run 3-trixie-broker --root trixie --bus broker; \
		run 4-forky --root forky; \
		for release in bookworm trixie; do Tests/Lab/fresh $$release --also test --results .build/lab/5-fresh-$$release.json || failed=1; done; \
		Tests/Lab/platforms .build/lab/*.json && exit $$failed

# The documents' commands for the build machine, in a new root without the project's dependencies.
ALSO ?=
fresh: deps
	Tests/Lab/fresh $(or $(ROOT),bookworm) $(addprefix --also=,$(ALSO))

bench: release
	@Tests/Support/deps-test
	$(SWIFT) build $(RELEASE_FLAGS) --product accessory-sim
	$(SWIFT) build $(RELEASE_FLAGS) --product advert-baseline
	$(SWIFT) build $(RELEASE_FLAGS) --product gatt-baseline
	$(SWIFT) build $(RELEASE_FLAGS) --product gatt-central
	$(SWIFT) build $(RELEASE_FLAGS) --product readme-app
	$(SWIFT) build $(RELEASE_FLAGS) --product relay-baseline
	$(SWIFT) build $(RELEASE_FLAGS) --product scan-baseline
	/usr/bin/python3 Tests/Bench/run $(RELEASE)
	Tests/Support/deps-web
	BIN=$(CURDIR)/$(RELEASE) Tests/Support/in-memory /usr/bin/python3 -W ignore Tests/Bench/page

# Presence at several duties, by the test clock of a debug build: minutes.
bench-presence: build
	@Tests/Support/deps-test
	BIN=$(CURDIR)/$(BIN) Tests/Support/in-memory /usr/bin/python3 -W ignore Tests/Bench/presence

# Beside a local bleak.
bench-door: release
	@Tests/Support/deps-test
	@Tests/Support/deps-clients
	$(SWIFT) build $(RELEASE_FLAGS) --product accessory-sim
	BIN=$(CURDIR)/$(RELEASE) Tests/Support/in-memory /usr/bin/python3 -W ignore Tests/Bench/door

# All answers that there may be to the daemon's calls: many minutes.
answers: build
	@Tests/Support/deps-test
	ANSWERS=all BIN=$(BIN) Tests/Support/in-memory Tests/Support/run-side-by-side Tests/Answers

# After changes to the list of calls.
calls: deps
	$(SWIFT) build --product list-calls
	$(BIN)/list-calls --markdown > Docs/Calls.md

# After changes to the tables of the interface.
shapes: deps
	$(SWIFT) build --product page-tables
	$(BIN)/page-tables > Sources/cockpit/interfaces.js

fuzz: deps
	MINUTES="$(MINUTES)" TARGET="$(TARGET)" Tests/Fuzz/run

HOURS ?= 1
SEED ?= 1
STEPS ?= 3000
# MINUTES has a default for the fuzzers: here it counts only if it was given.
soak: build
	@Tests/Support/deps-test
	BIN=$(BIN) Tests/Support/in-memory Tests/Soak/soak --seed $(SEED) --steps $(STEPS) \
		$(if $(filter-out file,$(origin MINUTES)),--minutes $(MINUTES),--hours $(HOURS))

soak-lab: build
	Tests/Lab/run --bin $(BIN) --seed $(SEED) --soak \
		$(if $(filter-out file,$(origin MINUTES)),$(MINUTES),$(shell awk 'BEGIN { print 60 * $(HOURS) }'))

# As many gateways as a fleet has, on one machine: in a release build, as they are installed.
GATEWAYS ?= 10000
fleet-simulation: deps $(STATIC)
	@Tests/Support/deps-test
	$(SWIFT) build $(RELEASE_FLAGS) --product fleet-simulation
	Tests/FleetSimulation/run --bin $(RELEASE) --gateways $(GATEWAYS) --seed $(SEED) \
		--seconds $(shell awk 'BEGIN { print int(60 * $(if $(filter-out file,$(origin MINUTES)),$(MINUTES),5)) }')

SHORT ?=
growth: build
	@Tests/Support/deps-test
	BIN=$(BIN) Tests/Support/in-memory Tests/Soak/growth $(if $(SHORT),--short)

lint: deps
	$(SWIFT) format lint --strict --recursive Sources Tests Package.swift
	Tests/Support/check-calls
	Tests/Support/check-english --self-test
	Tests/Support/check-english
	Tests/Support/check-imports
	Tests/Support/check-licences
	Tests/Support/check-page
	Tests/Support/check-properties --self-test
	Tests/Support/check-properties
	Tests/Support/check-prose
	Tests/Support/check-readme
	Tests/Support/check-reasons
	Tests/Support/check-security
	Tests/Support/check-version
	Tests/Support/check-walk
	Tests/Clients/table --check

format: deps
	$(SWIFT) format --in-place --recursive Sources Tests Package.swift
	Tests/Support/check-prose --write
	Tests/Support/check-english --tighten

man: deps
	rm -rf .build/man
	Docs/Man/render .build/man $(VERSION) $$(date -u -d @$(SOURCE_DATE_EPOCH) +%F)

check-man: man build
	@Tests/Support/deps-check
	Tests/Support/check-man-pages .build/man $(BIN)

docc: build
	Tests/Support/check-docs $(BIN)/Modules .build/docc

install: release man install-files

# Without dependencies: a package is made of existing builds.
install-files:
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(addprefix $(RELEASE)/,$(PROGRAMS)) $(DESTDIR)$(PREFIX)/bin
	ln -sf accessoryctl $(DESTDIR)$(PREFIX)/bin/accessory-sim
	install -D -m 644 dbus-policy/org.accessorysetup1.conf -t $(DESTDIR)$(DATADIR)/dbus-1/system.d
	install -D -m 644 dbus-policy/org.accessorysetup1.policy -t $(DESTDIR)$(DATADIR)/polkit-1/actions
	install -D -m 644 dbus-policy/*.rules -t $(DESTDIR)$(DATADIR)/polkit-1/rules.d
	install -D -m 644 dbus-policy/org.bluez.lockdown.conf -t $(DESTDIR)$(DATADIR)/accessory-setup
	install -D -m 644 systemd/org.accessorysetup1.service -t $(DESTDIR)$(DATADIR)/dbus-1/system-services
	install -D -m 644 Sources/AccessoryBus/Interfaces/*.xml -t $(DESTDIR)$(DATADIR)/dbus-1/interfaces
	install -D -m 644 systemd/accessorysetupd-bus.socket -t $(DESTDIR)$(UNITDIR)
	for unit in $(UNITS); do \
		sed 's|@PREFIX@|$(PREFIX)|g' systemd/$$unit > $(DESTDIR)$(UNITDIR)/$$unit && chmod 644 $(DESTDIR)$(UNITDIR)/$$unit || exit; \
	done
	for each in $(SERVICES); do install -D -m 644 systemd/$$each.sysusers $(DESTDIR)$(SYSUSERSDIR)/$$each.conf || exit; done
	for each in $(TMPFILES); do install -D -m 644 systemd/$$each.tmpfiles $(DESTDIR)$(TMPFILESDIR)/$$each.conf || exit; done
	install -d $(DESTDIR)$(DATADIR)/accessory-setup/apps $(DESTDIR)/etc/accessory-setup/apps $(DESTDIR)/etc/accessory-setup/policy.d \
		$(DESTDIR)/etc/accessory-setup/claims.d
	install -D -m 644 systemd/examples/* $(filter-out %/dice-rolls,$(wildcard Docs/Examples/*)) -t $(DESTDIR)$(DATADIR)/accessory-setup/examples
	install -m 755 Docs/Examples/dice-rolls $(DESTDIR)$(DATADIR)/accessory-setup/examples
	install -D -m 644 Tests/Scenarios/dice.json -t $(DESTDIR)$(DATADIR)/accessory-setup/scenarios
	install -d $(DESTDIR)$(PAGEDIR)
	install -m 644 $(addprefix Sources/cockpit/,manifest.json index.html *.js style.css) $(DESTDIR)$(PAGEDIR)
	gzip -9nf $(DESTDIR)$(PAGEDIR)/*.js $(DESTDIR)$(PAGEDIR)/style.css
	install -D -m 644 Sources/cockpit/$(METAINFO) -t $(DESTDIR)$(DATADIR)/metainfo
	for page in .build/man/*; do install -D -m 644 $$page -t $(DESTDIR)$(MANDIR)/man$${page##*.} || exit; done
	install -d $(DESTDIR)$(BASHDIR) $(DESTDIR)$(ZSHDIR) $(DESTDIR)$(FISHDIR)
	$(EMULATOR) $(RELEASE)/accessoryctl --generate-completion-script bash | sed '1{/^#!/d}' > $(DESTDIR)$(BASHDIR)/accessoryctl
	$(EMULATOR) $(RELEASE)/accessoryctl --generate-completion-script zsh > $(DESTDIR)$(ZSHDIR)/_accessoryctl
	$(EMULATOR) $(RELEASE)/accessoryctl --generate-completion-script fish > $(DESTDIR)$(FISHDIR)/accessoryctl.fish

# The store, the admin's configuration, manifests and keys, and the users stay.
uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,$(PROGRAMS) accessory-sim)
	rm -f $(DESTDIR)$(DATADIR)/dbus-1/system.d/org.accessorysetup1.conf $(DESTDIR)$(DATADIR)/dbus-1/system-services/org.accessorysetup1.service
	rm -f $(addprefix $(DESTDIR)$(UNITDIR)/,$(UNITS) accessorysetupd-bus.socket)
	rm -f $(addprefix $(DESTDIR)$(SYSUSERSDIR)/,$(SERVICES:=.conf)) $(addprefix $(DESTDIR)$(TMPFILESDIR)/,$(TMPFILES:=.conf))
	rm -f $(DESTDIR)$(DATADIR)/accessory-setup/org.bluez.lockdown.conf $(DESTDIR)$(DATADIR)/polkit-1/actions/org.accessorysetup1.policy
	rm -f $(addprefix $(DESTDIR)$(DATADIR)/polkit-1/rules.d/,accessorysetupd.rules accessory-fleet.rules)
	rm -f $(addprefix $(DESTDIR)$(DATADIR)/dbus-1/interfaces/,$(notdir $(wildcard Sources/AccessoryBus/Interfaces/*.xml)))
	rm -rf $(DESTDIR)$(DATADIR)/accessory-setup/examples $(DESTDIR)$(DATADIR)/accessory-setup/scenarios
	rm -rf $(DESTDIR)$(PAGEDIR)
	rm -f $(DESTDIR)$(DATADIR)/metainfo/$(METAINFO)
	sed -n 's/^\([^# ]*\)(\([0-9]\)) .*/man\2\/\1.\2/p' Docs/Man/pages | sed 's|^|$(DESTDIR)$(MANDIR)/|' | xargs -d '\n' rm -f
	rm -f $(DESTDIR)$(BASHDIR)/accessoryctl $(DESTDIR)$(ZSHDIR)/_accessoryctl $(DESTDIR)$(FISHDIR)/accessoryctl.fish

# Built in .build/deb/source, because debhelper expects debian/ inside the source tree.
deb: release man
	@Tests/Support/deps-package
	$(MAKE) pack

pack:
	rm -rf $(DEBS)
	install -d $(DEBS)/source
	cp -R systemd/debian $(DEBS)/source/debian
	systemd/debian/make-changelog $(VERSION) $(SOURCE_DATE_EPOCH) > $(DEBS)/source/debian/changelog
	cd $(DEBS)/source && dpkg-buildpackage --build=binary --no-sign $(PACK_FLAGS) > ../build.log 2>&1 || { cat ../build.log; exit 1; }
	@ls $(DEBS)/*.deb

# The same for arm64, on this machine and as root: Debian's Swift builds it in a root of its own, and the result is
# tried under qemu-user.
deb-arm64: deps man
	Tests/Support/deps-package binutils-aarch64-linux-gnu mmdebstrap qemu-user-static
	systemd/debian/cross build --product accessorysetupd $(SMALL) $(NAMELESS) $(call ordered,accessorysetupd)
	systemd/debian/cross build --product accessoryctl $(SMALL) $(NAMELESS)
	systemd/debian/cross build --product accessory-door $(SMALL) $(NAMELESS)
	systemd/debian/cross build --product accessory-fleet $(SMALL) $(NAMELESS) $(call ordered,accessory-fleet)
	systemd/debian/cross pack DEBS=$(ARM64_DEBS) RELEASE=$(ARM64)
	$(SWIFT) build --product dice
	DICE=$(BIN)/dice systemd/debian/cross check $(ARM64_DEBS)/*_arm64.deb

# Limits: bytes installed by the packages of the daemon, the door, the fleet's agent and the page, and by all, and the size of the
# package files.
check-sizes:
	Tests/Support/check-sizes $(RELEASE) .build/deb 12500000 7700000 9670000 500000 48250000 12250000

clean:
	rm -rf .build .lab
