package clean_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/controller/clean"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/run/server"
)

// quiet leaves PodCertificateRequests to the test.
func quiet(c *server.Config) {
	c.Cleaning.PodRequests = clean.PodSettings{}
	c.Admission.DisabledPlugins = []string{"PodCertificateIdentity"}
}

// cleanPodsAt runs the cleaner of PodCertificateRequests, with its account and
// a clock that stands still. It returns a function that stops it.
func (w world) cleanPodsAt(t *testing.T, now time.Time, versions worker.Lookup, edit func(*clean.PodConfig)) (stop func()) {
	t.Helper()
	account := w.account(t, "podcertificaterequestcleaner")
	mgr, err := ctrl.NewManager(account, ctrl.Options{Scheme: scheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)}})
	if err != nil {
		t.Fatal(err)
	}
	cleaner, err := client.New(account, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	cfg := clean.PodConfig{API: account, Client: cleaner, Versions: versions, Settings: clean.DefaultSettings(), Clock: clocktesting.NewFakePassiveClock(now)}
	if edit != nil {
		edit(&cfg)
	}
	if err := clean.AddPods(mgr, cfg); err != nil {
		t.Fatal(err)
	}
	return apitest.Work(t, mgr)
}

func (w world) versions(t *testing.T) worker.Lookup {
	t.Helper()
	kinds, err := discovery.NewDiscoveryClientForConfig(w.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	return kinds.ServerResourcesForGroupVersionWithContext
}

// askForPod creates a request for a pod of a node.
func (w world) askForPod(t *testing.T, name, node string) *certificatesv1beta1.PodCertificateRequest {
	t.Helper()
	bound := apitest.NewBoundPod(t, w.admin, "default", "p-"+node, node, apitest.PodSource(signerName))
	request := bound.Request(t, 0, apitest.NewKey(t))
	request.Name, request.GenerateName = name, ""
	request, err := w.admin.CertificatesV1beta1().PodCertificateRequests("default").Create(t.Context(), request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request
}

func (w world) denyPod(t *testing.T, request *certificatesv1beta1.PodCertificateRequest) {
	t.Helper()
	request.Status.Conditions = []metav1.Condition{{Type: "Denied", Status: "True", Reason: "Test", LastTransitionTime: metav1.Now()}}
	if _, err := w.admin.CertificatesV1beta1().PodCertificateRequests("default").UpdateStatus(t.Context(), request, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// podRequests returns the names of the existing requests.
func (w world) podRequests(t *testing.T) map[string]bool {
	t.Helper()
	list, err := w.admin.CertificatesV1beta1().PodCertificateRequests("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, request := range list.Items {
		names[request.Name] = true
	}
	return names
}

// Old requests are deleted, with or without an outcome; young ones stay.
func TestServerPodRequestsGo(t *testing.T) {
	w := start(t, quiet)
	w.askForPod(t, "pending", "n")
	w.denyPod(t, w.askForPod(t, "denied", "n"))
	young := w.askForPod(t, "young", "n")
	for _, name := range []string{"pending", "denied"} {
		w.age(t, name, young.CreationTimestamp.Add(-time.Hour))
	}
	defer w.cleanPodsAt(t, young.CreationTimestamp.Add(time.Minute), w.versions(t), nil)()
	apitest.Eventually(t, "the old ones are gone", func() bool {
		there := w.podRequests(t)
		return !there["pending"] && !there["denied"]
	})
	if !w.podRequests(t)["young"] {
		t.Error("the young one is gone too")
	}
}

// A request is deleted at 15 minutes to the second, and not before.
func TestServerPodRequestsGoInTime(t *testing.T) {
	for age, goes := range map[time.Duration]bool{15 * time.Minute: true, 15*time.Minute - time.Second: false} {
		t.Run(age.String(), func(t *testing.T) {
			w := start(t, quiet)
			first := w.askForPod(t, "first", "n")
			mark := w.askForPod(t, "mark", "n")
			w.age(t, "mark", mark.CreationTimestamp.Add(-time.Hour))
			defer w.cleanPodsAt(t, first.CreationTimestamp.Add(age), w.versions(t), nil)()
			apitest.Eventually(t, "the cleaner is at work", func() bool { return !w.podRequests(t)["mark"] })
			if !goes && !w.podRequests(t)["first"] {
				t.Error("it went too early")
			}
			if goes {
				apitest.Eventually(t, "it is gone", func() bool { return !w.podRequests(t)["first"] })
			}
		})
	}
}

// A node that creates requests in a loop loses its oldest requests. Others lose
// nothing.
func TestServerPodRequestsOfOneNode(t *testing.T) {
	w := start(t, quiet)
	var last *certificatesv1beta1.PodCertificateRequest
	for i := range 5 {
		last = w.askForPod(t, fmt.Sprintf("looping-%d", i), "loop")
		w.askForPod(t, fmt.Sprintf("quiet-%d", i), fmt.Sprintf("quiet-%d", i))
	}
	defer w.cleanPodsAt(t, last.CreationTimestamp.Add(10*time.Minute), w.versions(t), func(c *clean.PodConfig) {
		c.Settings.PodRequests.MaxPerNode = 2
	})()
	apitest.Eventually(t, "the node has two", func() bool { return len(w.podRequests(t)) == 7 })
	for i := range 5 {
		if !w.podRequests(t)[fmt.Sprintf("quiet-%d", i)] {
			t.Errorf("quiet-%d is gone", i)
		}
	}
}

// A pod's request with a certificate is not deleted before that is recorded, whether it is old or
// one of too many.
func TestServerPodRequestsWaitForRecords(t *testing.T) {
	for reason, edit := range map[string]func(*clean.Settings){
		"old":      func(*clean.Settings) {},
		"too many": func(s *clean.Settings) { s.PodRequests.Age.Duration, s.PodRequests.MaxPerNode = 0, 1 },
	} {
		t.Run(reason, func(t *testing.T) {
			w := start(t, quiet)
			w.denyPod(t, w.askForPod(t, "denied", "n"))
			issued := w.askForPod(t, "issued", "n")
			w.issuePod(t, issued)
			w.denyPod(t, w.askForPod(t, "last", "n"))
			var recorded atomic.Bool
			asked := make(chan types.UID, 1000)
			defer w.cleanPodsAt(t, issued.CreationTimestamp.Add(time.Hour), w.versions(t), func(c *clean.PodConfig) {
				edit(&c.Settings)
				c.Recorded = func(kind string, uid types.UID) bool {
					if kind == "PodCertificateRequest" {
						asked <- uid
					}
					return recorded.Load()
				}
			})()
			apitest.Eventually(t, "the one without a certificate is gone", func() bool { return !w.podRequests(t)["denied"] })
			for range 2 { // it is looked at again, although nothing has changed
				if uid := <-asked; uid != issued.UID || !w.podRequests(t)["issued"] {
					t.Errorf("asked about %s, there is %v", uid, w.podRequests(t))
				}
			}
			recorded.Store(true)
			apitest.Eventually(t, "it is gone", func() bool { return !w.podRequests(t)["issued"] })
		})
	}
}

// issuePod gives a pod's request a certificate.
func (w world) issuePod(t *testing.T, request *certificatesv1beta1.PodCertificateRequest) {
	t.Helper()
	stub, err := x509.ParseCertificateRequest(request.Spec.StubPKCS10Request)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := w.ca.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: request.Name}, stub.PublicKey, pki.ClientUsages(), time.Hour, time.Now().Add(time.Minute)) // it begins before that
	if err != nil {
		t.Fatal(err)
	}
	at := func(when time.Time) *metav1.Time { return new(metav1.NewTime(when)) }
	request.Status = certificatesv1beta1.PodCertificateRequestStatus{
		CertificateChain: string(pki.EncodeCertificates(chain...)),
		NotBefore:        at(chain[0].NotBefore), NotAfter: at(chain[0].NotAfter), BeginRefreshAt: at(chain[0].NotBefore.Add(30 * time.Minute)),
		Conditions: []metav1.Condition{{Type: "Issued", Status: "True", Reason: "Test", LastTransitionTime: metav1.Now()}},
	}
	if _, err := w.admin.CertificatesV1beta1().PodCertificateRequests("default").UpdateStatus(t.Context(), request, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// An API without such requests is not an error: the cleaner waits.
func TestServerWithoutPodRequests(t *testing.T) {
	w := start(t, quiet)
	request := w.askForPod(t, "old", "n")
	var served atomic.Bool
	asked := make(chan struct{}, 100)
	known := w.versions(t)
	lookup := func(ctx context.Context, version string) (*metav1.APIResourceList, error) {
		select {
		case asked <- struct{}{}:
		default:
		}
		// As in Kubernetes 1.35, the requests exist in v1beta1 only, or not at
		// all.
		if !served.Load() || version != "certificates.k8s.io/v1beta1" {
			return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
		}
		return known(ctx, version)
	}
	defer w.cleanPodsAt(t, request.CreationTimestamp.Add(time.Hour), lookup, nil)()
	for range 4 { // two looks at two versions
		<-asked
	}
	if !w.podRequests(t)["old"] {
		t.Error("it is gone already")
	}
	served.Store(true)
	apitest.Eventually(t, "it is gone", func() bool { return !w.podRequests(t)["old"] })
}

// age changes the creation time of a stored request, which is not possible
// through the API.
func (w world) age(t *testing.T, name string, created time.Time) {
	t.Helper()
	key := "/registry/podcertificaterequests/default/" + name
	request := &certificatesv1beta1.PodCertificateRequest{}
	stored := []byte(w.Stored(t, key))
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(stored, nil, request); err != nil {
		t.Fatal(err)
	}
	request.CreationTimestamp = metav1.NewTime(created)
	request.APIVersion, request.Kind = "certificates.k8s.io/v1beta1", "PodCertificateRequest"
	aged, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	w.Store(t, key, string(aged))
}
