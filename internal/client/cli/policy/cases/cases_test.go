package cases_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/certplane/certplane/internal/client/cli/policy/answer"
	"github.com/certplane/certplane/internal/client/cli/policy/cases"
)

// files are policies, facts and tests, as people have them.
const files = `
-- policies/web.yaml --
apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: web-shop}
spec:
  effect: Allow
  match:
    signers: [clusterissuers.cert-manager.io/internal]
    namespaces: {selector: {matchLabels: {team: shop}}}
    requesters: {groups: [team-shop]}
  certificate:
    names: {dns: {zones: [shop.example.com], required: true}}
    keys: {types: [ECDSAP256, RSA2048]}
    usages: {allowed: [digital signature, server auth]}
    lifetime: {max: 2160h}
  quotas:
  - {name: daily, certificates: 100, per: 24h, by: Namespace}
---
apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: people-for-cas}
spec:
  effect: Limit
  match:
    kinds: [CertificateSigningRequest, CertificateRequest]
    signers: ["*"]
    conditions: [{name: ca, expression: request.isCA}]
  approval:
    mode: People
    people: {count: 2, from: [{groups: [pki], count: 1}, {groups: [security], count: 1}], override: Allowed}
-- facts.yaml --
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: shop}}
`

// base is a test of which all cases pass.
const base = `apiVersion: certplane.dev/v1alpha1
kind: PolicyTest
metadata: {name: web}
policies: [policies/*.yaml]
facts: [facts.yaml]
cases:
- name: own zone
  ask: &ask
    kind: CertificateRequest
    namespace: shop
    signer: clusterissuers.cert-manager.io/internal
    as: {username: alice, groups: [team-shop]}
    dnsNames: [www.shop.example.com]
    usages: [digital signature, server auth]
    duration: 2160h
  expect: {outcome: Approve, policy: web-shop}
`

// run runs a test with these files, and returns what it writes, without times.
func run(t *testing.T, test string, change func(*cases.Config)) (dir, output string, err error) {
	t.Helper()
	dir = t.TempDir()
	for _, f := range txtar.Parse([]byte(files + "-- web_test.yaml --\n" + test)).Files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	cfg := cases.Config{Path: filepath.Join(dir, "web_test.yaml"), Now: func() time.Time { return time.Time{} }, Stdout: &out}
	if change != nil {
		change(&cfg)
	}
	err = cases.Run(context.Background(), cfg)
	return dir, strings.ReplaceAll(out.String(), dir+"/", ""), err
}

func TestRun(t *testing.T) {
	tests := []struct {
		reason, more string
		want         string // of the output
		failed       bool
		unknown      string // the error if it could not be found out
	}{
		{reason: "a case that passes", want: "ok web_test.yaml 1 cases 0.00s\n"},
		{reason: "a foreign name, expected", more: `
- name: foreign
  ask: {<<: *ask, dnsNames: [www.shop.example.com, www.example.org]}
  expect:
    outcome: Deny
    reason: NameNotPermitted
    violations: [{policy: web-shop, at: certificate.names.dns, field: "dnsNames[1]"}]
`, want: "ok web_test.yaml 2 cases 0.00s\n"},
		{reason: "another violation than expected", more: `
- name: foreign
  ask: {<<: *ask, dnsNames: [www.example.org]}
  expect: {outcome: Deny, violations: [{at: certificate.keys}]}
`, failed: true, want: `FAIL web_test.yaml:17: foreign
    --- expected
    +++ got
    @@ -1,3 +1,7 @@
     outcome: Deny
     violations:
    -- at: certificate.keys
    +- at: certificate.names.dns
    +  field: dnsNames[0]
    +  policy: web-shop
    +  reason: NameNotPermitted
    +  value: www.example.org
    certificate policy web-shop: dnsNames[0] "www.example.org" is in none of the zones shop.example.com
FAIL web_test.yaml 1 of 2 cases 0.00s
`},
		{reason: "no policy decides", more: `
- name: an apprentice
  ask: {<<: *ask, as: {username: alice}}
  expect: {outcome: Approve}
`, failed: true, want: "    Leave: no policy allows or refuses it: any user with the right to approve can\n    certificate policy people-for-cas: match.conditions[ca]: the expression is false\n    certificate policy web-shop: match.requesters: \"alice\" is not among the requesters\n"},
		{reason: "one violation more than expected", more: `
- name: two
  ask: {<<: *ask, dnsNames: [www.example.org], key: ED25519}
  expect: {outcome: Deny, violations: [{at: certificate.keys}]}
`, failed: true, want: "    +- at: certificate.names.dns\n"},
		{reason: "a matrix", more: `
- name: all keys
  matrix: {key: [ED25519, ECDSAP384], dnsNames: [[a.shop.example.com], [b.shop.example.com]]}
  ask: {<<: *ask}
  expect: {outcome: Deny, reason: UnsupportedKeyType}
`, want: "ok web_test.yaml 5 cases 0.00s\n"},
		{reason: "one combination fails", more: `
- name: all keys
  matrix: {key: [ED25519, ECDSAP256]}
  ask: {<<: *ask}
  expect: {outcome: Deny}
`, failed: true, want: "FAIL web_test.yaml:17: all keys [key=ECDSAP256]\n"},
		{reason: "a fact that is not there", more: `
- name: nowhere
  ask: {<<: *ask, namespace: nowhere}
  expect: {outcome: Wait, open: [namespaces/nowhere]}
`, want: "ok web_test.yaml 2 cases 0.00s\n"},
		{reason: "a fact that did not come in time", more: `
- name: nowhere
  ask: {<<: *ask, namespace: nowhere, age: 3m}
  expect: {outcome: Deny, reason: FactMissing}
`, want: "ok web_test.yaml 2 cases 0.00s\n"},
		{reason: "people", more: `
- name: one pair of eyes
  ask: &ca {kind: CertificateSigningRequest, signer: a.io/b, as: {username: alice}, isCA: true, usages: [cert sign]}
  votes: [{as: {username: bob, groups: [pki]}, ago: 1h}]
  expect: {outcome: NeedPeople, missing: [{groups: [security], count: 1}]}
- name: two pairs of eyes
  ask: *ca
  votes: [{as: {username: bob, groups: [pki]}}, {as: {username: carol, groups: [security]}}]
  expect: {outcome: Approve}
- name: the eyes are tired
  ask: *ca
  votes: [{as: {username: bob, groups: [pki]}, ago: 73h}, {as: {username: carol, groups: [security]}}]
  expect: {outcome: NeedPeople, missing: [{groups: [pki], count: 1}]}
`, want: "ok web_test.yaml 4 cases 0.00s\n"},
		{reason: "a quota", more: `
- name: the last that fits
  ask: *ask
  quotas: [{policy: web-shop, name: daily, used: 99}]
  expect: {outcome: Approve}
- name: one too many
  ask: *ask
  quotas: [{policy: web-shop, name: daily, used: 100}]
  expect: {outcome: Deny, violations: [{policy: web-shop, at: "quotas[daily]", reason: QuotaExceeded, value: shop}]}
- name: counted before
  ask: *ask
  quotas: [{policy: web-shop, name: daily, used: 100, counted: true}]
  expect: {outcome: Approve}
`, want: "ok web_test.yaml 4 cases 0.00s\n"},
		{reason: "a quota that does not exist", more: `
- name: misspelt
  ask: *ask
  quotas: [{policy: web-shop, name: dayly, used: 100}]
  expect: {outcome: Deny}
`, unknown: `web_test.yaml:19: cases[1].quotas: no policy "web-shop" has a quota "dayly"`},
		{reason: "requests that are not valid", more: `
- name: two extensions with names
  ask: {<<: *ask, raw: {secondSAN: "3003820161"}}
  expect: {outcome: Deny, reason: InvalidRequest}
- name: a directory name
  ask: {<<: *ask, raw: {san: "3004a4023000"}}
  expect: {outcome: Deny, reason: InvalidRequest}
- name: no text in the subject
  ask: {<<: *ask, raw: {subject: "300f310d300b0603550403040401020304"}}
  expect: {outcome: Deny, reason: InvalidRequest}
`, want: "ok web_test.yaml 4 cases 0.00s\n"},
		{reason: "no expectation", more: `
- name: forgotten
  ask: *ask
`, unknown: "1 of 2 cases could not be run", want: "    expect: must contain at least the outcome"},
		{reason: "an outcome that does not exist", more: `
- name: misspelt
  ask: *ask
  expect: {outcome: Denied}
`, unknown: `web_test.yaml:19: cases[1].expect: the outcome "Denied" must be one of`},
		{reason: "an unknown field", more: `
- name: misspelt
  ask: {<<: *ask, dnsName: [x]}
  expect: {outcome: Deny}
`, unknown: `web_test.yaml:18: unknown field "cases[1].ask.dnsName"`},
		{reason: "an unknown field in a matrix", more: `
- name: misspelt
  ask: *ask
  matrix: {keys: [RSA2048]}
  expect: {outcome: Deny}
`, unknown: `web_test.yaml:19: cases[1].matrix: its keys must be fields of ask: json: unknown field "keys"`},
		{reason: "a name twice", more: "- {name: own zone, ask: *ask, expect: {outcome: Deny}}\n", unknown: `cases[1].name: another case is named "own zone"`},
		{reason: "nothing to ask", more: "- {name: nothing, expect: {outcome: Deny}}\n", unknown: "cases[1]: either ask or request must be given"},
		{reason: "nobody asks", more: "- {name: nobody, ask: {<<: *ask, as: }, expect: {outcome: Deny}}\n", unknown: "1 of 2", want: "ask.as must name the requester"},
		{reason: "a key that does not exist", more: "- {name: key, ask: {<<: *ask, key: RSA}, expect: {outcome: Deny}}\n", unknown: "1 of 2", want: `ask.key: "RSA" is not a type of keys`},
		{reason: "a file that does not exist", more: "- {name: key, request: none.yaml, expect: {outcome: Deny}}\n", unknown: "1 of 2", want: "none.yaml: no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			_, output, err := run(t, base+strings.TrimPrefix(tt.more, "\n"), nil)
			if !strings.Contains(output, tt.want) {
				t.Errorf("output\n%s\nwant\n%s", output, tt.want)
			}
			if answer.IsNo(err) != tt.failed {
				t.Errorf("error %v", err)
			}
			if isUnknown := err != nil && !answer.IsNo(err); isUnknown != (tt.unknown != "") || isUnknown && !strings.Contains(err.Error(), tt.unknown) {
				t.Errorf("error %v, want %s", err, tt.unknown)
			}
		})
	}
}

// The policies of a test are not valid, or are not there.
// A vote overrides those policies that permit it and that the test lets the voter
// override.
func TestOverride(t *testing.T) {
	with := func(access string) string {
		return strings.Replace(base, "cases:\n", access+"cases:\n", 1) + `
- name: overridden
  ask:
    kind: CertificateSigningRequest
    signer: example.com/ca
    as: {username: alice}
    commonName: regional CA
    isCA: true
    usages: [cert sign]
  votes: [{as: {username: grace}, override: an outage}]
  expect: {outcome: Approve}
`
	}
	for access, passes := range map[string]bool{
		"access: [{user: grace, verb: override, name: people-for-cas}]\n": true,
		"access: [{user: grace, verb: override, name: web-shop}]\n":       false,
		"access: [{user: bob, verb: override, name: people-for-cas}]\n":   false,
		"": false,
	} {
		if _, output, err := run(t, with(access), nil); (err == nil) != passes {
			t.Errorf("%q: %v: %s", access, err, output)
		}
	}
}

func TestPolicies(t *testing.T) {
	for reason, tt := range map[string][2]string{
		"no such file":  {"policies: [policies/no*.yaml]", `web_test.yaml:4: policies[0]: the file "policies/no*.yaml" does not exist`},
		"no policies":   {"policies: [facts.yaml]", "web_test.yaml:4: policies: there are none in facts.yaml"},
		"no list":       {"policies: policies/web.yaml", "web_test.yaml:4: policies: must be a list, not a text"},
		"another kind":  {"kind: x", "the field \"kind\" is given twice"},
		"another group": {"", ""},
	} {
		if tt[0] == "" {
			continue
		}
		_, _, err := run(t, strings.Replace(base, "policies: [policies/*.yaml]", tt[0], 1), nil)
		if err == nil || answer.IsNo(err) || !strings.Contains(err.Error(), tt[1]) {
			t.Errorf("%s: %v, want %s", reason, err, tt[1])
		}
	}
}

func TestSelection(t *testing.T) {
	more := base + "- {name: other, ask: *ask, expect: {outcome: Deny}}\n"
	if _, output, err := run(t, more, func(c *cases.Config) { c.Run = regexp.MustCompile("^own") }); err != nil || output != "ok web_test.yaml 1 cases 0.00s\n" {
		t.Errorf("%v: %s", err, output)
	}
	if _, _, err := run(t, more, func(c *cases.Config) { c.Run = regexp.MustCompile("nothing") }); err == nil || answer.IsNo(err) {
		t.Errorf("no case has a matching name: %v", err)
	}
}

// Formats for programs can be parsed.
func TestFormats(t *testing.T) {
	const failing = base + "- {name: '<other>', ask: *ask, expect: {outcome: Deny}}\n- {name: third, ask: {<<: *ask, key: x}, expect: {outcome: Deny}}\n"
	_, output, _ := run(t, failing, func(c *cases.Config) { c.Output = "junit" })
	var suites struct {
		Suites []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Errors   int `xml:"errors,attr"`
			Cases    []struct {
				Name    string  `xml:"name,attr"`
				Failure *string `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(output), &suites); err != nil {
		t.Fatal(err)
	}
	if s := suites.Suites[0]; s.Tests != 3 || s.Failures != 1 || s.Errors != 1 || s.Cases[1].Name != "<other>" || s.Cases[1].Failure == nil || s.Cases[0].Failure != nil {
		t.Errorf("%+v", s)
	}
	_, output, _ = run(t, failing, func(c *cases.Config) { c.Output = "json" })
	var report cases.Report
	if err := json.Unmarshal([]byte(output), &report); err != nil {
		t.Fatal(err)
	}
	if got := report.Files[0].Cases; len(got) != 3 || !got[0].OK || got[1].OK || got[1].Diff == "" || got[1].Decision == nil || got[2].Error == "" {
		t.Errorf("%+v", got)
	}
}

// A folder is searched for tests; its other files are not.
func TestFolder(t *testing.T) {
	_, output, err := run(t, base, func(c *cases.Config) { c.Path = filepath.Dir(c.Path) })
	if err != nil || output != "ok web_test.yaml 1 cases 0.00s\n" {
		t.Errorf("%v: %s", err, output)
	}
	if _, _, err := run(t, base, func(c *cases.Config) { c.Path = filepath.Join(filepath.Dir(c.Path), "policies") }); err == nil || !strings.Contains(err.Error(), "found no PolicyTest") {
		t.Errorf("a folder without tests: %v", err)
	}
}
