package core

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// fillDefaults completes randomly filled objects as decoding does: omitted
// fields would otherwise change in a round trip.
func fillDefaults(serializer.CodecFactory) []any {
	return []any{
		func(s *corev1.Secret, c randfill.Continue) { c.FillNoCustom(s); setSecretDefaults(s) },
		func(s *corev1.Namespace, c randfill.Continue) { c.FillNoCustom(s); setNamespaceDefaults(s) },
		func(s *corev1.Node, c randfill.Continue) { c.FillNoCustom(s); setNodeDefaults(s) },
		func(s *corev1.Pod, c randfill.Continue) { c.FillNoCustom(s); setPodDefaults(s) },
		func(s *corev1.Service, c randfill.Continue) { c.FillNoCustom(s); setServiceDefaults(s) },
	}
}

func TestRoundTrip(t *testing.T) {
	roundtrip.RoundTripProtobufTestForScheme(t, newScheme(t), fillDefaults)
}

func TestDefaults(t *testing.T) {
	decoder := serializer.NewCodecFactory(newScheme(t)).UniversalDecoder()
	for _, tt := range []struct {
		reason, json string
		want         func(runtime.Object) any
		equals       any
	}{
		{"opaque secret", `{"kind":"Secret","apiVersion":"v1","stringData":{"a":"b"}}`,
			func(o runtime.Object) any {
				s := o.(*corev1.Secret)
				return []string{string(s.Type), string(s.Data["a"])}
			}, []string{"Opaque", "b"}},
		{"secrets in a list", `{"kind":"SecretList","apiVersion":"v1","items":[{},{}]}`,
			func(o runtime.Object) any { return o.(*corev1.SecretList).Items[1].Type }, corev1.SecretTypeOpaque},
		{"the name of a namespace", `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"n"}}`,
			func(o runtime.Object) any { return o.(*corev1.Namespace).Labels }, map[string]string{"kubernetes.io/metadata.name": "n"}},
		{"a name that is yet to be generated", `{"kind":"Namespace","apiVersion":"v1","metadata":{"generateName":"n-"}}`,
			func(o runtime.Object) any { return len(o.(*corev1.Namespace).Labels) }, 0},
		{"the older name of a pod's account", `{"kind":"Pod","apiVersion":"v1","spec":{"serviceAccount":"a"}}`,
			func(o runtime.Object) any { return o.(*corev1.Pod).Spec.ServiceAccountName }, "a"},
		{"a volume of nothing", `{"kind":"Pod","apiVersion":"v1","spec":{"volumes":[{"name":"v"}]}}`,
			func(o runtime.Object) any { return o.(*corev1.Pod).Spec.Volumes[0].EmptyDir != nil }, true},
	} {
		obj, _, err := decoder.Decode([]byte(tt.json), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.equals, tt.want(obj)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
		}
	}
}

func TestPullPolicy(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"a": "Always", "a:latest": "Always", "a:v1": "IfNotPresent", "example.com:5000/a": "Always",
		"example.com:5000/a:v1": "IfNotPresent", "a@sha256:00": "IfNotPresent",
	} {
		if got := pullPolicy(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}
