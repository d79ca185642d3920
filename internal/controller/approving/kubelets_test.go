package approving

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/policy/approval"
	"github.com/certplane/certplane/internal/process/eventtext"
)

type condition = certificatesv1.CertificateSigningRequestCondition

const (
	asksSelf = "create subjectaccessreviews for selfnodeclient"
	asks     = "create subjectaccessreviews for nodeclient"
	approves = "update certificatesigningrequests/approval"

	selfMessage = "Auto approving self kubelet client certificate after SubjectAccessReview."
	message     = "Auto approving kubelet client certificate after SubjectAccessReview."
)

var (
	resource = schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}

	conflict  = apierrors.NewConflict(resource, "n1", errors.New("changed"))
	forbidden = apierrors.NewForbidden(resource, "n1", errors.New("secret reason"))
)

func TestApproves(t *testing.T) {
	tests := []struct {
		reason     string
		user       string
		allowed    string
		calls      []string
		recogniser string
		message    string
	}{
		{"a node for itself", node, "selfnodeclient", []string{asksSelf, approves}, "selfnodeclient", selfMessage},
		{"somebody for a node", "system:bootstrap:abcdef", "nodeclient", []string{asks, approves}, "nodeclient", message},
		{"a node for itself, with the wider permission", node, "nodeclient", []string{asksSelf, asks, approves}, "nodeclient", message},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFixture(t, newRequest(t, tc.user))
			f.allowed = tc.allowed
			assertQuiet(t, f)
			assertCalls(t, f, tc.calls...)
			want := []condition{{Type: "Approved", Status: "True", Reason: "AutoApproved", Message: tc.message}}
			if diff := cmp.Diff(want, f.get().Status.Conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if log := f.log.String(); !strings.Contains(log, `"msg"="Approved request"`) || !strings.Contains(log, tc.user) {
				t.Errorf("log is %s", log)
			}
			if got := f.eventText(); got != "" {
				t.Errorf("events are %q: the condition says it all", got)
			}
			assertCounted(t, f, f.report.metrics.approved, tc.recogniser, 1)

			assertQuiet(t, f)
			assertCalls(t, f, tc.calls...)
		})
	}
}

// Requests that no recogniser knows, or that are decided, cost nothing: the API
// is not called, whatever it would permit.
func TestLeavesAlone(t *testing.T) {
	decided := func(kind certificatesv1.RequestConditionType) func(*csr) {
		return func(c *csr) { c.Status.Conditions = []condition{{Type: kind, Status: "True"}} }
	}
	tests := []struct {
		reason string
		change func(*csr)
		event  string
	}{
		{reason: "of another signer", change: func(c *csr) { c.Spec.SignerName = "kubernetes.io/kube-apiserver-client" }},
		{reason: "of a foreign signer", change: func(c *csr) { c.Spec.SignerName = "example.com/signer" }},
		{reason: "approved", change: decided("Approved")},
		{reason: "denied", change: decided("Denied")},
		{reason: "failed", change: decided("Failed")},
		{reason: "issued", change: func(c *csr) { c.Status.Certificate = []byte("x") }},
		{reason: "not there", change: func(c *csr) { c.Name = "n2" }},
		{reason: "unreadable", change: func(c *csr) { c.Spec.Request = []byte("x") }, event: "parsing the certificate request: "},
		{
			reason: "of the wrong shape", change: func(c *csr) { c.Spec.Usages = append(c.Spec.Usages, "server auth") },
			event: "Warning NotRecognised Left for approval by hand: not a kubelet's request for its client certificate: usages did not match [client auth digital signature key encipherment]\n",
		},
	}
	for _, tc := range tests {
		for _, allowed := range []string{"", "nodeclient", "selfnodeclient"} {
			t.Run(tc.reason+"/"+allowed, func(t *testing.T) {
				c := newRequest(t, node)
				tc.change(c)
				f := newFixture(t, c)
				f.allowed = allowed
				assertQuiet(t, f)
				assertCalls(t, f)
				if got := f.eventText(); (got == "") != (tc.event == "") || !strings.Contains(got, tc.event) {
					t.Errorf("events are %q, want %q", got, tc.event)
				}
			})
		}
	}
}

func TestRefuses(t *testing.T) {
	f := newFixture(t, newRequest(t, "mallory"))
	f.allowed = "selfnodeclient" // which is not for her to use
	result, err := f.reconcile()
	if err != nil || result.RequeueAfter != minWait || result.Priority == nil || *result.Priority != handler.LowPriority {
		t.Errorf("%+v, error %v, want another attempt later, after the new requests", result, err)
	}
	assertCalls(t, f, asks)
	if got := f.get().Status.Conditions; len(got) > 0 {
		t.Errorf("conditions are %v: a person can still approve", got)
	}
	want := `Warning NotPermitted Left for approval by hand: user "mallory" may not create certificatesigningrequests/nodeclient; ` +
		"to have such requests approved, bind ClusterRole system:certificates.k8s.io:certificatesigningrequests:nodeclient to the user or to a group of it\n"
	if diff := cmp.Diff(want, f.eventText()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	assertCounted(t, f, f.report.metrics.notApproved, "NotPermitted", 1)
}

// The API refuses events with notes of more than 1024 bytes.
func TestNoteFits(t *testing.T) {
	c := newRequest(t, "mallory"+strings.Repeat("ü", eventtext.Max))
	f := newFixture(t, c)
	if _, err := f.reconcile(); err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(f.eventText(), "Warning NotPermitted ")
	if text = strings.TrimSuffix(text, "\n"); !ok || len(text) > eventtext.Max || !utf8.ValidString(text) || !strings.HasSuffix(text, "...") {
		t.Errorf("note of %d bytes: %q", len(text), text)
	}
}

// A request that is not permitted is checked less often than in Kubernetes,
// about a hundred times a day, and reported once. A permission that is granted
// late still takes effect, and soon.
func TestAsksLessAndLess(t *testing.T) {
	f := newFixture(t, newRequest(t, "mallory"))
	longest := time.Duration(0)
	for f.clock.Since(start) < 24*time.Hour {
		result, err := f.reconcile()
		if err != nil {
			t.Fatal(err)
		}
		if waited := f.clock.Since(start); result.RequeueAfter > max(waited/4, time.Second) {
			t.Errorf("after %v the next attempt is in %v", waited, result.RequeueAfter)
		}
		longest = max(longest, result.RequeueAfter)
		f.clock.SetTime(f.clock.Now().Add(result.RequeueAfter))
	}
	if len(f.calls) > 90 {
		t.Errorf("asked %d times in a day", len(f.calls))
	}
	if longest != maxWait {
		t.Errorf("waited for %v, want up to %v", longest, maxWait)
	}
	if got := f.eventText(); strings.Count(got, "\n") != 1 {
		t.Errorf("events are %q, want one", got)
	}
	assertCounted(t, f, f.report.metrics.notApproved, "NotPermitted", 1)

	f.allowed = "nodeclient"
	assertQuiet(t, f)
	if got := f.get().Status.Conditions; len(got) != 1 {
		t.Errorf("conditions are %v, want the approval", got)
	}
	if len(f.waiting.entries) > 0 {
		t.Errorf("still remembered: %v", f.waiting.entries)
	}
}

// Another request with the same name does not inherit the wait, and is
// reported.
func TestRequestMadeAgain(t *testing.T) {
	f := newFixture(t, newRequest(t, "mallory"))
	if _, err := f.reconcile(); err != nil {
		t.Fatal(err)
	}
	f.clock.SetTime(start.Add(time.Hour))
	if err := f.api.Delete(t.Context(), f.get()); err != nil {
		t.Fatal(err)
	}
	if err := f.api.Create(t.Context(), newRequest(t, "trudy")); err != nil {
		t.Fatal(err)
	}
	result, err := f.reconcile()
	if err != nil || result.RequeueAfter != minWait {
		t.Errorf("%+v, error %v", result, err)
	}
	if got := f.eventText(); !strings.Contains(got, `user "trudy"`) {
		t.Errorf("events are %q", got)
	}
}

// However a request's wait ends, no state of it is kept.
func TestForgets(t *testing.T) {
	tests := []struct {
		reason string
		end    func(*fixture) error
	}{
		{"deleted", func(f *fixture) error { return f.api.Delete(f.t.Context(), f.get()) }},
		{"approved by a person", func(f *fixture) error {
			c := f.get()
			c.Status.Conditions = []condition{{Type: "Approved", Status: "True"}}
			return f.api.Status().Update(f.t.Context(), c)
		}},
		{"made again, as nobody's sort", func(f *fixture) error {
			again := newRequest(f.t, "mallory")
			again.UID, again.Spec.Usages = "uid-2", nil
			return errors.Join(f.api.Delete(f.t.Context(), f.get()), f.api.Create(f.t.Context(), again))
		}},
		{"deleted while it is approved", func(f *fixture) error {
			f.allowed, f.writingFails = "nodeclient", apierrors.NewNotFound(resource, "n1")
			return nil
		}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFixture(t, newRequest(t, "mallory"))
			if _, err := f.reconcile(); err != nil {
				t.Fatal(err)
			}
			if err := tc.end(f); err != nil {
				t.Fatal(err)
			}
			assertQuiet(t, f)
			if len(f.waiting.entries) > 0 {
				t.Errorf("still remembered: %v", f.waiting.entries)
			}
		})
	}
}

func TestConflictIsQuiet(t *testing.T) {
	f := newFixture(t, newRequest(t, node))
	f.allowed, f.writingFails = "selfnodeclient", conflict
	result, err := f.reconcile()
	if err != nil || result != (reconcile.Result{RequeueAfter: time.Second}) {
		t.Errorf("%+v, error %v, want another attempt soon", result, err)
	}
	if text := f.eventText() + f.log.String(); text != "" {
		t.Errorf("said %q", text)
	}
	f.writingFails = nil
	assertQuiet(t, f)
}

// A fault of the API or of the approver is retried as an error. It is logged,
// and reported in one Event without its cause.
func TestUnavailable(t *testing.T) {
	tests := []struct {
		reason string
		fault  func(*fixture)
		err    string
	}{
		{"asking", func(f *fixture) { f.askingFails = forbidden }, "checking the requester's permission to create nodeclient: "},
		{"writing", func(f *fixture) { f.writingFails = forbidden }, "writing the approval: "},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFixture(t, newRequest(t, "system:bootstrap:abcdef"))
			f.allowed = "nodeclient"
			tc.fault(f)
			for range 2 {
				if _, err := f.reconcile(); err == nil || !strings.HasPrefix(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
			}
			if got := f.eventText(); strings.Count(got, "Warning ApproverUnavailable ") != 1 || strings.Contains(got, "secret") {
				t.Errorf("events are %q", got)
			}
			f.askingFails, f.writingFails = nil, nil
			assertQuiet(t, f)
		})
	}
	t.Run("the cache", func(t *testing.T) {
		f := newFixture(t)
		f.cache = failingReader{}
		if _, err := f.reconcile(); err == nil {
			t.Error("no error")
		}
	})
}

type failingReader struct{ client.Reader }

func (failingReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("not synced")
}

func assertQuiet(t *testing.T, f *fixture) {
	t.Helper()
	result, err := f.reconcile()
	if err != nil || result != (reconcile.Result{}) {
		t.Fatalf("%+v, error %v, want nothing more to do", result, err)
	}
}

func assertCalls(t *testing.T, f *fixture, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, f.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// assertCounted compares a counter of the approver's signer.
func assertCounted(t *testing.T, f *fixture, counter *prometheus.CounterVec, label string, want float64) {
	t.Helper()
	if got := testutil.ToFloat64(counter.WithLabelValues(approval.SignerName, label)); got != want {
		t.Errorf("counted %v as %s, want %v", got, label, want)
	}
	if problems, err := testutil.GatherAndLint(f.registry); err != nil || len(problems) > 0 {
		t.Errorf("metrics are not as Prometheus likes them: %v %v", problems, err)
	}
}
