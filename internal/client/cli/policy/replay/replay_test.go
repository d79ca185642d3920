package replay_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/answer"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
	"github.com/certplane/certplane/internal/client/cli/policy/replay"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

const (
	month  = 720 * time.Hour
	season = 2160 * time.Hour
)

// log is a decision log of 100 requests: 41 for more than a month, 3 for foreign
// names.
func log(t *testing.T, old *certpolicy.Set) []byte {
	r := newRequests(t)
	var lines bytes.Buffer
	for i := range 100 {
		length, name := month, "www.shop.example.com"
		if i < 41 {
			length = season
		} else if i >= 97 {
			name = "api.shop.example.net"
		}
		cr := r.certificateRequest(fmt.Sprintf("web-%d", i), 1+i%28, length, name)
		lines.Write(logLine(t, old, cr, certpolicy.Facts{}, v1alpha1.StageApprover))
		lines.WriteByte('\n')
	}
	return lines.Bytes()
}

func TestDifferences(t *testing.T) {
	old := setOf(policy("web-shop", season, "shop.example.com"))
	lines := log(t, old)
	tests := []struct {
		reason string
		cfg    replay.Config
		groups []string
		code   error // nil, or any answer.No
		text   string
	}{
		{reason: "the same policies", cfg: replay.Config{Old: old, New: old}, text: "no decision differs\n"},
		{reason: "the same policies, and what was logged", cfg: replay.Config{New: old}, text: "no decision differs\n"},
		{
			reason: "stricter in one way, looser in another",
			cfg:    replay.Config{Old: old, New: setOf(policy("web-shop-next", month, "shop.example.com", "shop.example.net"))},
			groups: []string{"41 Approve→Deny web-shop-next certificate.lifetime.max", "3 Deny→Approve web-shop-next certificate.names.dns LOOSER"},
			text: `replayed 100 requests of 2026-11-01..2026-11-28 in 0.0 s (2 workers)
                 new:     Approve        Deny
old: Approve                   56          41
old: Deny                       3           0
44 decisions differ
  41  Approve→Deny  web-shop-next  certificate.lifetime.max          e.g. shop/web-0 (2026-11-01) "90d"; would pass: at most 30d
  3   Deny→Approve  web-shop-next  certificate.names.dns     LOOSER  e.g. shop/web-97 (2026-11-14) "api.shop.example.net"; would pass: a name in shop.example.com
`,
		},
		{reason: "no policies", cfg: replay.Config{Old: old, New: setOf()}, groups: []string{"97 Approve→Leave web-shop ", "3 Deny→Leave web-shop certificate.names.dns LOOSER"}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			tt.cfg.Logs, tt.cfg.Stdin = []string{manifest.Stdin}, bytes.NewReader(lines)
			report, text, err := replayed(t, tt.cfg)
			if answer.IsNo(err) != (len(tt.groups) > 0) || err != nil && !answer.IsNo(err) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tt.groups, groups(report)); diff != "" {
				t.Error(diff)
			}
			if tt.text != "" && !strings.HasSuffix(text, tt.text) {
				t.Error(cmp.Diff(tt.text, text))
			}
			for _, g := range report.Groups {
				if len(g.Samples) == 0 || len(g.Samples) > 5 {
					t.Errorf("%d samples", len(g.Samples))
				}
			}
		})
	}
}

func TestFailOn(t *testing.T) {
	old := setOf(policy("web-shop", season, "shop.example.com"))
	lines := log(t, old)
	stricter, looser := setOf(policy("web-shop", month, "shop.example.com")), setOf(policy("web-shop", season, "shop.example.com", "shop.example.net"))
	for _, tt := range []struct {
		reason string
		new    *certpolicy.Set
		failOn replay.FailOn
		no     bool
	}{
		{"stricter, any", stricter, replay.FailOnAny, true}, {"stricter, looser", stricter, replay.FailOnLooser, false},
		{"looser, looser", looser, replay.FailOnLooser, true}, {"looser, none", looser, replay.FailOnNone, false},
	} {
		_, _, err := replayed(t, replay.Config{Logs: []string{"-"}, Stdin: bytes.NewReader(lines), Old: old, New: tt.new, FailOn: tt.failOn})
		if answer.IsNo(err) != tt.no {
			t.Errorf("%s: %v", tt.reason, err)
		}
	}
}

// Each request gets a line, in the order of the log.
func TestEach(t *testing.T) {
	old := setOf(policy("web-shop", season, "shop.example.com"))
	_, text, _ := replayed(t, replay.Config{Logs: []string{"-"}, Stdin: bytes.NewReader(log(t, old)), Old: old, New: setOf(), Each: true})
	n := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var pair struct {
			Request  v1alpha1.DecidedRequest
			Old, New v1alpha1.PolicyDecision
			Differs  bool
		}
		if err := json.Unmarshal([]byte(line), &pair); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("web-%d", n); pair.Request.Name != want || !pair.Differs || pair.New.Outcome != v1alpha1.OutcomeLeave {
			t.Fatalf("%s: %+v", want, pair)
		}
		n++
	}
	if n != 100 {
		t.Errorf("%d lines", n)
	}
}

// Facts are those of the line, then those of today, which are counted; otherwise
// nothing is guessed.
func TestFacts(t *testing.T) {
	byLabel := policy("by-label", season, "shop.example.com")
	byLabel.Spec.Match.Namespaces = &v1alpha1.NamespaceMatch{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}}
	byAccess := policy("by-access", season, "shop.example.com")
	byAccess.Spec.Match.Access = []v1alpha1.AccessMatch{{Verb: "use"}}
	cr := newRequests(t).certificateRequest("web", 1, month, "www.shop.example.com")
	labels := func(team string) certpolicy.Fact[metav1.ObjectMeta] {
		return certpolicy.Known(&metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": team}})
	}
	documents, err := manifest.Parse("facts", []byte(`
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: shop}}
---
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec: {user: alice, resourceAttributes: {verb: use, group: certplane.dev, resource: certificatepolicies, name: by-access, namespace: shop}}
status: {allowed: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	store, err := facts.NewStore(documents)
	if err != nil {
		t.Fatal(err)
	}
	today := &facts.Finder{Objects: &replay.Remembered{Reader: store}, Access: replay.RememberAccess(store.Access)}
	for _, tt := range []struct {
		reason string
		known  certpolicy.Facts
		policy *v1alpha1.CertificatePolicy
		today  facts.Source
		want   v1alpha1.DecisionOutcome
		used   int
	}{
		{"recorded", certpolicy.Facts{Namespace: labels("other")}, byLabel, today, v1alpha1.OutcomeLeave, 0},
		{"of today", certpolicy.Facts{}, byLabel, today, v1alpha1.OutcomeApprove, 1},
		{"nowhere", certpolicy.Facts{}, byLabel, nil, v1alpha1.OutcomeWait, 0},
		{"access of today", certpolicy.Facts{}, byAccess, today, v1alpha1.OutcomeApprove, 1},
		{"access recorded", certpolicy.Facts{Access: map[certpolicy.Access]bool{
			{Verb: "use", Group: "certplane.dev", Resource: "certificatepolicies", Name: "by-access", Namespace: "shop"}: false,
		}}, byAccess, today, v1alpha1.OutcomeLeave, 0},
		{"access of nowhere", certpolicy.Facts{}, byAccess, nil, v1alpha1.OutcomeWait, 0},
	} {
		old := setOf()
		report, _, err := replayed(t, replay.Config{
			Logs: []string{"-"}, Stdin: bytes.NewReader(logLine(t, old, cr, tt.known, v1alpha1.StageApprover)), Old: old, New: setOf(tt.policy), Today: tt.today,
		})
		if err != nil && !answer.IsNo(err) {
			t.Fatal(err)
		}
		if got := report.Matrix[v1alpha1.OutcomeLeave][tt.want]; got != 1 || report.Summary.Today != tt.used {
			t.Errorf("%s: %v, with today's facts %d", tt.reason, report.Matrix, report.Summary.Today)
		}
	}
}

// An audit log has much else; what it has of requests is used, and counted if
// their bodies are missing.
func TestAudit(t *testing.T) {
	cr := newRequests(t).certificateRequest("web", 1, season, "www.shop.example.com")
	cr.Spec.Username, cr.UID, cr.Namespace = "", "", ""
	body, err := json.Marshal(cr)
	if err != nil {
		t.Fatal(err)
	}
	event := func(changes ...string) string {
		text := `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","stage":"ResponseComplete","requestURI":"/apis/cert-manager.io/v1/namespaces/shop/certificaterequests","verb":"create",` +
			`"user":{"username":"alice","groups":["team-shop"]},"objectRef":{"resource":"certificaterequests","namespace":"shop","name":"web","apiGroup":"cert-manager.io","apiVersion":"v1"},` +
			`"responseStatus":{"code":201},"requestReceivedTimestamp":"2026-11-03T10:00:00.123456Z","requestObject":` + string(body) + `}`
		for i := 0; i+1 < len(changes); i += 2 {
			if !strings.Contains(text, changes[i]) {
				t.Fatalf("nothing is %s", changes[i])
			}
			text = strings.Replace(text, changes[i], changes[i+1], 1)
		}
		return text
	}
	team := policy("web-shop", season, "shop.example.com")
	team.Spec.Match.Requesters = &v1alpha1.RequesterMatch{RequesterLists: v1alpha1.RequesterLists{Groups: []string{"team-shop"}}}
	old := setOf(team)
	for _, tt := range []struct {
		reason, line string
		want         replay.Summary
	}{
		{"a request", event(), replay.Summary{Requests: 1}},
		{"as another user", event(`"objectRef"`, `"impersonatedUser":{"username":"bob"},"objectRef"`), replay.Summary{Requests: 1, Different: 1}},
		{"without its body", event(`,"requestObject":`+string(body), ""), replay.Summary{WithoutBody: 1}},
		{"a body that cannot be read", event(`"requestObject":{`, `"requestObject":{"spec":1},"x":{`), replay.Summary{Unreadable: 1}},
		{"no JSON", `{"create" certificate`, replay.Summary{Unreadable: 1}},
		{"refused by policies", event(`"code":201}`, `"code":403},"annotations":{"policy.certplane.dev/outcome":"Deny"}`), replay.Summary{Requests: 1}},
		{"refused for another reason", event(`"code":201`, `"code":409`), replay.Summary{}},
		{"an earlier stage", event("ResponseComplete", "RequestReceived"), replay.Summary{}},
		{"an update", event(`"verb":"create"`, `"verb":"update"`), replay.Summary{}},
		{"a subresource", event(`"apiVersion":"v1"}`, `"apiVersion":"v1","subresource":"create"}`), replay.Summary{}},
		{"a dry run", event(`/certificaterequests"`, `/certificaterequests?dryRun=All"`), replay.Summary{}},
		{"something else", `{"verb":"get","objectRef":{"resource":"pods"}}`, replay.Summary{}},
	} {
		lines := tt.line + "\n\n" + event(`"name":"web"`, `"name":"second"`) + "\n"
		// The second set does not ask who requests.
		report, _, err := replayed(t, replay.Config{Audits: []string{"-"}, Stdin: strings.NewReader(lines), Old: old, New: setOf(policy("web-shop", season, "shop.example.com"))})
		if err != nil && !answer.IsNo(err) {
			t.Fatalf("%s: %v", tt.reason, err)
		}
		got := report.Summary
		if !got.From.Equal(time.Date(2026, 11, 3, 10, 0, 0, 123456000, time.UTC)) {
			t.Errorf("%s: from %v", tt.reason, got.From)
		}
		want := tt.want
		want.Requests++ // the second line
		want.Workers, want.From, want.To, want.Seconds = 2, got.From, got.To, 0
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", tt.reason, diff)
		}
	}
}

// Files have lists, single objects and other kinds; what was decided is in their
// conditions.
func TestDirs(t *testing.T) {
	r := newRequests(t)
	approved, denied, open := r.certificateRequest("approved", 1, season, "www.shop.example.com"), r.certificateRequest("denied", 2, season, "www.shop.example.com"), r.certificateRequest("open", 3, month, "www.shop.example.com")
	approved.Status.Conditions = []cmv1.CertificateRequestCondition{{Type: cmv1.CertificateRequestConditionApproved, Status: cmmeta.ConditionTrue}}
	denied.Status.Conditions = []cmv1.CertificateRequestCondition{{Type: cmv1.CertificateRequestConditionDenied, Status: cmmeta.ConditionTrue}}
	dir := t.TempDir()
	write := func(name string, objects ...any) {
		var text bytes.Buffer
		for _, object := range objects {
			data, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(data)
			text.WriteByte('\n')
		}
		if err := os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("list.json", map[string]any{"apiVersion": "v1", "items": []any{approved, denied}, "kind": "List"}, open)
	write("one.yaml", r.certificateRequest("other", 4, month, "www.example.org"))
	write("facts.json", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"}})
	policies := setOf(policy("web-shop", month, "shop.example.com"))
	report, _, err := replayed(t, replay.Config{Dirs: []string{dir}, New: policies})
	if !answer.IsNo(err) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 Approve→Deny web-shop certificate.lifetime.max"}, groups(report)); diff != "" || report.Summary.WithoutOutcome != 2 || report.Summary.Requests != 2 {
		t.Errorf("%s %+v", diff, report.Summary)
	}
	report, _, err = replayed(t, replay.Config{Dirs: []string{dir}, Old: setOf(), New: policies})
	if !answer.IsNo(err) || report.Summary.Requests != 4 {
		t.Errorf("%v %+v", err, report.Summary)
	}
}

// A signature that does not fit is only looked at if that is wanted.
func TestVerify(t *testing.T) {
	cr := newRequests(t).certificateRequest("web", 1, month, "www.shop.example.com")
	block, _ := pem.Decode(cr.Spec.Request)
	block.Bytes[len(block.Bytes)-1] ^= 1 // the signature is at the end
	cr.Spec.Request = pem.EncodeToMemory(block)
	old := setOf()
	line := logLine(t, old, cr, certpolicy.Facts{}, v1alpha1.StageSign)
	for verify, want := range map[bool]int{false: 0, true: 1} {
		report, _, err := replayed(t, replay.Config{Logs: []string{"-"}, Stdin: bytes.NewReader(line), Old: old, New: old, Verify: verify})
		if err != nil || report.Summary.Unreadable != want {
			t.Errorf("verify %v: %v %+v", verify, err, report.Summary)
		}
	}
}

// Only the decisions of one stage are replayed if that is wanted.
func TestStage(t *testing.T) {
	cr := newRequests(t).certificateRequest("web", 1, month, "www.shop.example.com")
	old := setOf()
	var lines bytes.Buffer
	for _, stage := range []v1alpha1.DecisionStage{v1alpha1.StageCreate, v1alpha1.StageApprover, v1alpha1.StageSign} {
		lines.Write(logLine(t, old, cr, certpolicy.Facts{}, stage))
		lines.WriteByte('\n')
	}
	for stage, want := range map[v1alpha1.DecisionStage]int{"": 3, v1alpha1.StageApprover: 1} {
		report, _, err := replayed(t, replay.Config{Logs: []string{"-"}, Stdin: bytes.NewReader(lines.Bytes()), New: old, Stage: stage})
		if err != nil || report.Summary.Requests != want {
			t.Errorf("stage %q: %v %+v", stage, err, report.Summary)
		}
	}
}

func TestNothing(t *testing.T) {
	_, _, err := replayed(t, replay.Config{Logs: []string{"-"}, Stdin: strings.NewReader("\n"), New: setOf()})
	if err == nil || answer.IsNo(err) {
		t.Errorf("no requests: %v", err)
	}
	_, _, err = replayed(t, replay.Config{Logs: []string{filepath.Join(t.TempDir(), "none")}, New: setOf()})
	if !os.IsNotExist(err) {
		t.Errorf("no such file: %v", err)
	}
}
