package cases_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/client/cli/policy/cases"
)

// Update writes what was decided, changes nothing else, and what it has written
// passes.
func TestUpdate(t *testing.T) {
	const before = base + `
# A comment that stays
- name: foreign        # and this one
  ask: {<<: *ask, dnsNames: [www.example.org]}
  expect:
    outcome: Approve   # this one goes
    policy: web-shop

- name: forgotten
  ask: {<<: *ask, key: ED25519}
  # the end of a case
- expect: {outcome: Leave}
  name: first things last
  ask: {<<: *ask, namespace: nowhere}
- name: all keys
  matrix: {key: [RSA3072, ED25519]}
  expect: {outcome: Approve}
  ask: {<<: *ask}
`
	const after = base + `
# A comment that stays
- name: foreign        # and this one
  ask: {<<: *ask, dnsNames: [www.example.org]}
  expect:
    outcome: Deny
    policy: web-shop
    reason: NameNotPermitted
    violations:
      - {at: certificate.names.dns, field: 'dnsNames[0]', policy: web-shop}

- name: forgotten
  ask: {<<: *ask, key: ED25519}
  expect:
    outcome: Deny
    policy: web-shop
    reason: UnsupportedKeyType
    violations:
      - {at: certificate.keys, field: key, policy: web-shop}
  # the end of a case
- expect:
    open:
      - namespaces/nowhere
    outcome: Wait
    policy: web-shop
    reason: FactMissing
  name: first things last
  ask: {<<: *ask, namespace: nowhere}
- name: all keys
  matrix: {key: [RSA3072, ED25519]}
  expect:
    outcome: Deny
    policy: web-shop
    reason: UnsupportedKeyType
    violations:
      - {at: certificate.keys, field: key, policy: web-shop}
  ask: {<<: *ask}
`
	dir, output, err := run(t, before, func(c *cases.Config) { c.Update = true })
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"updated web_test.yaml: foreign\n", "updated web_test.yaml: all keys [key=ED25519]\n", "ok web_test.yaml 6 cases 0.00s\n"} {
		if !strings.Contains(output, want) {
			t.Errorf("output\n%swant\n%s", output, want)
		}
	}
	written, err := os.ReadFile(filepath.Join(dir, "web_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(after, string(written)); diff != "" {
		t.Fatal(diff)
	}
	if _, output, err := run(t, string(written), nil); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	if _, output, err := run(t, string(written), func(c *cases.Config) { c.Update = true }); err != nil || strings.Contains(output, "updated") {
		t.Errorf("an update of what passes: %v\n%s", err, output)
	}
}

// What cannot be written is refused, and nothing is written.
func TestNoUpdate(t *testing.T) {
	for reason, tt := range map[string][2]string{
		"in braces":         {"- {name: braces, ask: *ask, expect: {outcome: Deny}}\n", "web_test.yaml:17: braces: the case is in braces"},
		"different":         {"- name: keys\n  matrix: {key: [ED25519, ECDSAP256]}\n  ask: *ask\n  expect: {outcome: Wait}\n", "the combinations of the matrix have different decisions"},
		"it cannot be made": {"- name: key\n  ask: {<<: *ask, key: RSA}\n- name: other\n  ask: *ask\n  expect: {outcome: Deny}\n", ""},
	} {
		test := base + tt[0]
		dir, _, err := run(t, test, func(c *cases.Config) { c.Update = true })
		if err == nil || !strings.Contains(err.Error(), tt[1]) {
			t.Errorf("%s: %v, want %s", reason, err, tt[1])
		}
		if written, _ := os.ReadFile(filepath.Join(dir, "web_test.yaml")); string(written) != test && tt[1] != "" {
			t.Errorf("%s: it was written:\n%s", reason, written)
		}
	}
}
