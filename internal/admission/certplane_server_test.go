package admission_test

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

// declared is a Signer with all required fields.
const declared = `
apiVersion: certplane.dev/v1alpha1
kind: Signer
metadata: {name: workload}
spec:
  signerName: example.com/workload
  requests: [PodCertificateRequest]
  ca: {generated: {}}
  profile:
    names: {uris: '["spiffe://example.org/" + pod.metadata.name]'}
    usages: [digital signature, client auth]
`

func signersOf(t *testing.T, s *apitest.Server) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(v1alpha1.GroupVersion.WithResource("signers"))
}

// declare returns the Signer after changes, a map from paths to values.
func declare(t *testing.T, name string, changes map[string]any) *unstructured.Unstructured {
	t.Helper()
	signer := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(declared), &signer.Object); err != nil {
		t.Fatal(err)
	}
	signer.SetName(name)
	for path, value := range changes {
		fields := strings.Split(path, ".")
		unstructured.RemoveNestedField(signer.Object, fields...)
		if value == nil {
			continue
		}
		if err := unstructured.SetNestedField(signer.Object, value, fields...); err != nil {
			t.Fatal(err)
		}
	}
	return signer
}

func TestBadSignersAreRefused(t *testing.T) {
	s := apitest.Start(t)
	signers := signersOf(t, s)
	if _, err := signers.Create(t.Context(), declare(t, "workload", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	other := func(changes object) object {
		if changes["spec.signerName"] == nil {
			changes["spec.signerName"] = "example.com/other"
		}
		return changes
	}
	tests := []struct {
		reason  string
		changes object
		field   string
		want    string
	}{
		{"the name of another Signer", object{"spec.profile.usages": []any{"client auth"}}, "spec.signerName", "the Signer workload declares it already"},
		{"no signer name", other(object{"spec.signerName": "workload"}), "spec.signerName", "must be a domain, a slash and a path, as in example.com/workload"},
		{"a name of Kubernetes", other(object{"spec.signerName": "kubernetes.io/kubelet-serving"}), "spec.signerName", "are reserved for Kubernetes"},
		{"no CA", other(object{"spec.ca": object{}}), "spec.ca", "exactly one of"},
		{"two CAs", other(object{"spec.ca.builtIn": object{}}), "spec.ca", "exactly one of"},
		{"no duration", other(object{"spec.profile.lifetime": object{"maximum": "5 days"}}), "spec.profile.lifetime.maximum", "must be hours, minutes and seconds, such as 24h"},
		{"an empty duration", other(object{"spec.profile.lifetime": object{"maximum": ""}}), "spec.profile.lifetime.maximum", "must be hours, minutes and seconds"},
		{"a subject of pods' requests", other(object{"spec.profile.subject": object{"fromRequest": true}}), "spec", "requests of pods have no subject"},
		{"no usage", other(object{"spec.profile.usages": []any{"cert sign"}}), "spec.profile.usages[0]", "Unsupported value"},
		{"an expression that does not compile", other(object{"spec.profile.names.uris": "[pod.metadata.nmae]"}), "spec.profile.names.uris", "undefined field 'nmae'"},
		{"an expression of another type", other(object{"spec.profile.names.uris": "1"}), "spec.profile.names.uris", "must yield a list of strings, and yields int"},
		{"a rule that does not compile", other(object{"spec.profile.rules": []any{object{"expression": "true"}, object{"expression": "1 +"}}}), "spec.profile.rules[1].expression", "Syntax error"},
		{"a CA that is shorter than its certificates", other(object{"spec.ca.generated": object{"lifetime": "2h"}}), "spec.ca.generated.lifetime", "longest lifetime of a certificate"},
		{"too short for pods", other(object{"spec.profile.lifetime": object{"maximum": "10m"}}), "spec.profile.lifetime.maximum", "at least 1h"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			_, err := signers.Create(t.Context(), declare(t, "other", tc.changes), metav1.CreateOptions{})
			assertCause(t, err, tc.field, tc.want)
		})
	}
}

// assertCause requires 422 Invalid, with a cause about a field.
func assertCause(t *testing.T, err error, field, want string) {
	t.Helper()
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		t.Fatalf("got %v, want 422 Invalid", err)
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == field && strings.Contains(cause.Message, want) {
			return
		}
	}
	t.Errorf("causes %+v\nwant %s: %s", status.Status().Details.Causes, field, want)
}

func TestSignersAreCheckedWhenTheyChange(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.Admission.DisabledPlugins = []string{"Signer"} })
	signers := signersOf(t, s)
	bad := declare(t, "workload", map[string]any{"spec.profile.names.uris": "1"})
	if _, err := signers.Create(t.Context(), bad, metav1.CreateOptions{}); err != nil {
		t.Fatalf("the plugin is off, and says %v", err)
	}
	s.Config.Admission.DisabledPlugins = nil
	s.Restart(t)
	signers = signersOf(t, s)
	update := func(name string, change func(*unstructured.Unstructured)) error {
		t.Helper()
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error { // its status is written, too
			signer, err := signers.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			change(signer)
			_, err = signers.Update(t.Context(), signer, metav1.UpdateOptions{})
			return err
		})
	}
	set := func(value string, fields ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, value, fields...); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := update("workload", func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) }); err != nil {
		t.Errorf("a label of a bad Signer: %v", err)
	}
	assertCause(t, update("workload", set("None", "spec", "chain")), "spec.profile.names.uris", "must yield a list of strings")
	assertCause(t, update("workload", set("example.com/else", "spec", "signerName")), "spec.signerName", "signerName is immutable")
	if err := update("workload", set(`["a:b"]`, "spec", "profile", "names", "uris")); err != nil {
		t.Errorf("a Signer that is mended: %v", err)
	}
}
