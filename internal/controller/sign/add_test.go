package sign

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/metrics"
)

func newManager(t *testing.T) ctrl.Manager {
	t.Helper()
	// Nothing is dialled before the manager starts.
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, ctrl.Options{
		Scheme:     scheme.Scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

func TestSeveralServersInOneProcess(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		if err := AddBuiltIn(newManager(t), BuiltIn{Config: Config{SignerName: signerName, Metrics: registry}, CA: &fakeCA{}}); err != nil {
			t.Fatal(err)
		}
	}
	one, err := metrics.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	two, err := metrics.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	if one.Issued != two.Issued || one.Duration != two.Duration {
		t.Error("two signers count apart under one name")
	}
}

func TestAddRefuses(t *testing.T) {
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "certplane_signing_issued_total"}, []string{"other"}))
	tests := []struct {
		reason string
		cfg    Config
		want   string
	}{
		{
			reason: "unknown signer", cfg: Config{SignerName: "example.com/signer"},
			want: `unknown signer "example.com/signer": the signers are kubernetes.io/kube-apiserver-client, kubernetes.io/kube-apiserver-client-kubelet, kubernetes.io/kubelet-serving, kubernetes.io/legacy-unknown`,
		},
		{
			reason: "unknown signer of Kubernetes", cfg: Config{SignerName: "kubernetes.io/unknown"},
			want: `unknown signer "kubernetes.io/unknown": the signers are kubernetes.io/kube-apiserver-client, kubernetes.io/kube-apiserver-client-kubelet, kubernetes.io/kubelet-serving, kubernetes.io/legacy-unknown`,
		},
		{
			reason: "settings that cannot work", cfg: Config{SignerName: signerName, Settings: Settings{MaxDuration: metav1.Duration{Duration: time.Second}}},
			want: "signing.maxDuration: 1s is too short: must be at least 1m",
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if err := AddBuiltIn(newManager(t), BuiltIn{Config: tc.cfg, CA: &fakeCA{}}); err == nil || err.Error() != tc.want {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
	if err := AddBuiltIn(newManager(t), BuiltIn{Config: Config{SignerName: signerName, Metrics: taken}, CA: &fakeCA{}}); err == nil {
		t.Error("metrics that collide with others were accepted")
	}
}

// Each signer has its own queue, and with it its own metrics.
func TestControllerNames(t *testing.T) {
	var got []string
	for _, name := range signer.Names() {
		got = append(got, controllerName(name))
	}
	want := []string{"csrsigning-kube-apiserver-client", "csrsigning-kubelet-client", "csrsigning-kubelet-serving", "csrsigning-legacy-unknown"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
