package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apiserver"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

const cborType = "application/cbor"

// Switches apply to a server, not to the process: the two servers run at the
// same time with different switches.
func TestSwitches(t *testing.T) {
	on := start(t)
	off := start(t, func(c *server.Config) {
		c.API.RuntimeConfig = map[string]bool{"certificates.k8s.io/v1beta1": false, "certificates.k8s.io/v1alpha1": false}
		c.API.FeatureGates = map[string]bool{"CSRDuration": false, "CBOR": false}
	})
	for _, tc := range []struct {
		w  world
		on bool
	}{{on, true}, {off, false}} {
		t.Run(map[bool]string{true: "on", false: "off"}[tc.on], func(t *testing.T) {
			testDurationSwitch(t, tc.w, tc.on)
			testVersionSwitch(t, tc.w, tc.on)
			testCBORSwitch(t, tc.w, tc.on)
		})
	}
}

func testDurationSwitch(t *testing.T, w world, on bool) {
	request := newCSR(t, "duration")
	request.Spec.ExpirationSeconds = ptr.To[int32](3600)
	created, got := apitest.Create(t, w.admin, request), w.get(t, "duration")
	if kept := created.Spec.ExpirationSeconds != nil; kept != on || (got.Spec.ExpirationSeconds != nil) != on {
		t.Errorf("expirationSeconds is kept: %v, want %v", kept, on)
	}
	// A field that is ignored cannot be invalid.
	request.Name, request.Spec.ExpirationSeconds = "too-short", ptr.To[int32](1)
	_, err := w.admin.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, metav1.CreateOptions{})
	if refused := err != nil; refused != on {
		t.Errorf("expirationSeconds 1: %v", err)
	}
}

func testVersionSwitch(t *testing.T, w world, on bool) {
	want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[on]
	for _, where := range []string{path(v1beta1), path(v1beta1, "duration"), path(v1beta1, "duration", "approval"), "/apis/certificates.k8s.io/v1beta1"} {
		if got := w.send(t, w.Admin(t), call{path: where}); got.code != want {
			t.Errorf("%s: %d, want %d", where, got.code, want)
		}
	}
	groups, _, err := w.admin.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var versions []string
	for _, group := range groups {
		for _, version := range group.Versions {
			if group.Name == "certificates.k8s.io" {
				versions = append(versions, version.Version)
			}
		}
	}
	if diff := cmp.Diff(map[bool][]string{true: {v1, v1beta1, "v1alpha1"}, false: {v1}}[on], versions); diff != "" {
		t.Errorf("versions in discovery (-want +got):\n%s", diff)
	}
}

func testCBORSwitch(t *testing.T, w world, on bool) {
	got := w.send(t, w.Admin(t), call{path: path(v1), header: map[string]string{"Accept": cborType}})
	if want := map[bool]int{true: http.StatusOK, false: http.StatusNotAcceptable}[on]; got.code != want || on && got.header.Get("Content-Type") != cborType {
		t.Errorf("accepting CBOR alone: %d and %s, want %d", got.code, got.header.Get("Content-Type"), want)
	}
	got = w.send(t, w.Admin(t), call{path: path(v1), header: map[string]string{"Accept": cborType + ", application/json;q=0.9"}})
	if want := map[bool]string{true: cborType, false: "application/json"}[on]; got.code != http.StatusOK || got.header.Get("Content-Type") != want {
		t.Errorf("accepting CBOR too: %d and %s, want %s", got.code, got.header.Get("Content-Type"), want)
	}
	// An incomplete object: it is not decoded at all if CBOR is off.
	got = w.send(t, w.Admin(t), call{path: path(v1), header: map[string]string{"Content-Type": cborType}, body: []byte("\xd9\xd9\xf7\xa1")})
	if want := map[bool]int{true: http.StatusBadRequest, false: http.StatusUnsupportedMediaType}[on]; got.code != want {
		t.Errorf("sending CBOR: %d, want %d", got.code, want)
	}
}

func TestUnknownSwitches(t *testing.T) {
	for want, cfg := range map[string]apiserver.APIConfig{
		`api.runtimeConfig: unknown name "certificates.k8s.io/v1"`: {RuntimeConfig: map[string]bool{"certificates.k8s.io/v1": true}},
		`api.featureGates: unknown name "csrduration"`:             {FeatureGates: map[string]bool{"csrduration": true}},
	} {
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := apiserver.DefaultAPIConfig().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
}
