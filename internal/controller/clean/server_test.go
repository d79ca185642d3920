package clean_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/controller/clean"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

const signerName = "example.com/signer"

// world is a server, its administrator and a CA for certificates of an external
// signer.
type world struct {
	*apitest.Server
	admin kubernetes.Interface
	ca    *pki.Authority
}

func start(t *testing.T, options ...func(*server.Config)) world {
	t.Helper()
	s := apitest.Start(t, options...)
	return world{Server: s, admin: apitest.Client(t, s.Admin(t)), ca: s.ClientCA(t)}
}

// account is a service account of the system.
func (w world) account(t *testing.T, name string) *rest.Config {
	t.Helper()
	return w.As(t, "system:serviceaccount:kube-system:"+name, "system:serviceaccounts", "system:serviceaccounts:kube-system")
}

// cleanAt runs the cleaner, with its account and a clock that stands still. It
// returns a function that stops it.
func (w world) cleanAt(t *testing.T, now time.Time) (stop func()) {
	t.Helper()
	mgr, err := ctrl.NewManager(w.account(t, "controller-cache"), ctrl.Options{
		Scheme: scheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	cleaner, err := client.New(w.account(t, "csr-cleaner"), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	cfg := clean.Config{Client: cleaner, Settings: clean.DefaultSettings(), Clock: clocktesting.NewFakePassiveClock(now)}
	if err := clean.Add(mgr, cfg); err != nil {
		t.Fatal(err)
	}
	return apitest.Work(t, mgr)
}

// says adds a condition with its own time. Like Denied and Approved, other
// conditions are written through /approval.
func (w world) says(t *testing.T, name string, kind certificatesv1.RequestConditionType, at time.Time) {
	t.Helper()
	c := w.get(t, name)
	c.Status.Conditions = append(c.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: "Test", LastUpdateTime: metav1.NewTime(at),
	})
	if _, err := w.admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), name, c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// issue gives a request a certificate that was issued at this time.
func (w world) issue(t *testing.T, name string, made time.Time, lifetime time.Duration) {
	t.Helper()
	chain, err := w.ca.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: name}, apitest.NewKey(t).Public(), pki.ClientUsages(), lifetime, made)
	if err != nil {
		t.Fatal(err)
	}
	c := w.get(t, name)
	c.Status.Certificate = pki.EncodeCertificates(chain...)
	if _, err := w.admin.CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w world) create(t *testing.T, name string) {
	t.Helper()
	apitest.Create(t, w.admin, apitest.NewCSR(t, name, signerName, pki.Subject{CommonName: "x"}, apitest.NewKey(t)))
}

func (w world) get(t *testing.T, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	c, err := w.admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// names returns the names of all requests, in order.
func (w world) names(t *testing.T) []string {
	t.Helper()
	list, err := w.admin.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range list.Items {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return names
}

// keeps waits until exactly these requests are left.
func (w world) keeps(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	var got []string
	apitest.Eventually(t, "the cleaner has deleted what is due", func() bool {
		got = w.names(t)
		return len(got) <= len(want)
	})
	if !slices.Equal(got, want) {
		t.Errorf("the cleaner kept %v, want %v", got, want)
	}
}

// The cleaner looks at one moment after another, each time as if it had just
// been started.
func TestAges(t *testing.T) {
	w := start(t, func(c *server.Config) { c.Controllers = []string{"*", "-clean"} })
	const hour = time.Hour
	then := time.Now().Add(5 * hour) // when the cleaner looks first
	ago := func(age time.Duration) time.Time { return then.Add(-age) }
	for name, change := range map[string]func(name string){
		"approved-50m-issued": func(n string) { w.says(t, n, "Approved", ago(50*time.Minute)); w.issue(t, n, time.Now(), 100*hour) },
		"approved-2h-issued":  func(n string) { w.says(t, n, "Approved", ago(2*hour)); w.issue(t, n, time.Now(), 100*hour) },
		"approved-50m-ended":  func(n string) { w.says(t, n, "Approved", ago(50*time.Minute)); w.issue(t, n, time.Now(), hour) },
		"approved-50m":        func(n string) { w.says(t, n, "Approved", ago(50*time.Minute)) },
		"approved-5h":         func(n string) { w.says(t, n, "Approved", ago(5*hour)) },
		"approved-25h":        func(n string) { w.says(t, n, "Approved", ago(25*hour)) },
		"denied-50m":          func(n string) { w.says(t, n, "Denied", ago(50*time.Minute)) },
		"denied-2h":           func(n string) { w.says(t, n, "Denied", ago(2*hour)) },
		"failed-50m":          func(n string) { w.says(t, n, "Approved", ago(2*hour)); w.says(t, n, "Failed", ago(50*time.Minute)) },
		"failed-2h":           func(n string) { w.says(t, n, "Approved", ago(2*hour)); w.says(t, n, "Failed", ago(2*hour)) },
		"pending-5h":          func(string) {},
		"remarked":            func(n string) { w.says(t, n, "Remark", ago(0)) },
	} {
		w.create(t, name)
		change(name)
	}
	for _, moment := range []struct {
		after time.Duration
		keeps []string
	}{
		{0, []string{"approved-50m-issued", "approved-50m", "approved-5h", "denied-50m", "failed-50m", "pending-5h", "remarked"}},
		{11 * time.Minute, []string{"approved-50m", "approved-5h", "pending-5h", "remarked"}},
		{20 * hour, []string{"approved-50m", "remarked"}},
		{24 * hour, []string{"remarked"}},
		{164 * hour, nil},
	} {
		// The cleaner works in the order of the list. When it has deleted the
		// last ones, one more than it has workers, it has looked at all.
		for i := range 5 {
			name := fmt.Sprintf("z-%d", i)
			w.create(t, name)
			w.says(t, name, "Denied", then.Add(moment.after-2*hour))
		}
		stop := w.cleanAt(t, then.Add(moment.after))
		w.keeps(t, moment.keeps...)
		stop()
	}
}

// The server's own cleaner deletes requests in time, without any other trigger,
// and reports it.
func TestServerCleans(t *testing.T) {
	w := start(t, func(c *server.Config) {
		c.Cleaning.Pending.Duration, c.Cleaning.Denied.Duration = time.Second, time.Second
	})
	w.create(t, "pending")
	// The cleaner may be faster than the denial: then there is another request.
	requests := w.admin.CertificatesV1().CertificateSigningRequests()
	apitest.Eventually(t, "a request is denied before it is deleted as undecided", func() bool {
		c := apitest.Create(t, w.admin, apitest.NewCSR(t, "denied", signerName, pki.Subject{CommonName: "x"}, apitest.NewKey(t)))
		c.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
			Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "Test",
		}}
		_, err := requests.UpdateApproval(t.Context(), "denied", c, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	w.keeps(t)
	apitest.Eventually(t, "there is an event about the one that nobody decided", func() bool {
		list, err := w.admin.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == "pending" && e.Reason == "Deleted" && e.ReportingController == "certplane.dev/csr-cleaner" &&
				strings.HasPrefix(e.Note, "Deleted without an outcome: it was created ")
		})
	})
	text, err := w.admin.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range []string{"pending", "denied"} {
		if !strings.Contains(string(text), `certplane_cleaning_deleted_total{reason="`+reason+`"}`) {
			t.Errorf("there is no count of requests deleted because they were %s", reason)
		}
	}
}

func TestServerCaps(t *testing.T) {
	w := start(t, func(c *server.Config) {
		c.Cleaning.PerRequester.Max = 3
		c.Cleaning.Fetch.Duration = 0
	})
	requesters := map[string]*rest.Config{
		"looper":  w.As(t, "looper"),
		"account": w.As(t, "system:serviceaccount:default:looper", "system:serviceaccounts"),
		"node":    w.As(t, "system:node:looper", "system:nodes"),
		"admin":   w.Admin(t),
	}
	for _, user := range []string{"looper", "system:serviceaccount:default:looper", "system:node:looper"} {
		w.Grant(t, user, apitest.Allow("create", "certificatesigningrequests"))
	}
	for name, cfg := range requesters {
		requester := apitest.Client(t, cfg)
		for i := range 9 {
			apitest.Create(t, requester, apitest.NewCSR(t, fmt.Sprintf("%s-%d", name, i), signerName, pki.Subject{CommonName: "x"}, apitest.NewKey(t)))
		}
	}
	var want []string
	for i := range 9 {
		want = append(want, fmt.Sprintf("admin-%d", i))
	}
	apitest.Eventually(t, "there are three requests of each who loops", func() bool { return len(w.names(t)) <= 9+3*3 })
	got := w.names(t)
	if !slices.Equal(got[3:12], want) || len(got) != 18 {
		t.Errorf("left are %v", got)
	}
}

func TestRights(t *testing.T) {
	w := start(t)
	for _, tc := range []struct {
		verb, resource string
		want           bool
	}{
		{"delete", "certificatesigningrequests", true},
		{"deletecollection", "certificatesigningrequests", false},
		{"create", "certificatesigningrequests", false},
		{"update", "certificatesigningrequests", false},
		{"update", "certificatesigningrequests/approval", false},
		{"update", "certificatesigningrequests/status", false},
		{"approve", "signers", false},
		{"sign", "signers", false},
	} {
		what := authorizationv1.ResourceAttributes{Verb: tc.verb, Group: certificatesv1.GroupName, Version: "*", Name: "x"}
		what.Resource, what.Subresource, _ = strings.Cut(tc.resource, "/")
		if got := w.Allowed(t, "system:serviceaccount:kube-system:csr-cleaner", nil, what); got != tc.want {
			t.Errorf("the cleaner may %s %s: %v", tc.verb, tc.resource, got)
		}
	}
}
