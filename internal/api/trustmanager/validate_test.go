package trustmanager_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/trustmanager"
)

func check(t *testing.T, resource string, b *trustmanager.Bundle) string {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(b)
	if err != nil {
		t.Fatal(err)
	}
	err = trustmanager.Check(schema.GroupResource{Group: trustmanager.GroupName, Resource: resource}, "", &unstructured.Unstructured{Object: object})
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestCheck(t *testing.T) {
	key := func(key string) *trustmanager.TargetTemplate {
		return &trustmanager.TargetTemplate{KeySelector: trustmanager.KeySelector{Key: key}}
	}
	bad := &metav1.LabelSelector{MatchLabels: map[string]string{"a b": ""}}
	yes, no := ptr.To(true), ptr.To(false)
	for _, test := range []struct {
		change func(*trustmanager.BundleSpec)
		want   string
	}{
		{func(*trustmanager.BundleSpec) {}, ""},
		{func(s *trustmanager.BundleSpec) { s.Sources = []trustmanager.BundleSource{{UseDefaultCAs: no}} }, "spec.sources: Forbidden: must define at least one source"},
		{func(s *trustmanager.BundleSpec) {
			s.Sources = append(s.Sources, trustmanager.BundleSource{UseDefaultCAs: yes}, trustmanager.BundleSource{UseDefaultCAs: no})
		}, "spec.sources: Forbidden: must request default CAs either once or not at all but got 2 requests"},
		{func(s *trustmanager.BundleSpec) { s.Sources[0].ConfigMap = &trustmanager.ObjectKeys{Name: "x"} },
			`spec.sources[0].configMap: Invalid value: "key: ' ', includeAllKeys: false": source configMap key must be defined when includeAllKeys is false`},
		{func(s *trustmanager.BundleSpec) {
			s.Sources[0].Secret = &trustmanager.ObjectKeys{Name: "x", Key: "k", IncludeAllKeys: yes}
		}, `spec.sources[0].secret: Invalid value: "key: k, includeAllKeys: true": source secret key cannot be defined when includeAllKeys is true`},
		{func(s *trustmanager.BundleSpec) {
			s.Sources[0].ConfigMap = &trustmanager.ObjectKeys{Name: "roots", Key: "ca.crt"}
		}, "spec.sources[0].configMap.roots.ca.crt: Forbidden: cannot define the same source as target"},
		{func(s *trustmanager.BundleSpec) {
			s.Sources[0].ConfigMap = &trustmanager.ObjectKeys{Selector: bad, Key: "k"}
		}, "spec.sources[0].configMap.selector.matchLabels: Invalid value: \"a b\": name part"},
		{func(s *trustmanager.BundleSpec) {
			s.Target.AdditionalFormats = &trustmanager.AdditionalFormats{JKS: &trustmanager.JKS{KeySelector: trustmanager.KeySelector{Key: "ca.crt"}}}
		}, `spec.target.additionalFormats.jks.key: Invalid value: "ca.crt": key must be unique across all target output keys`},
		{func(s *trustmanager.BundleSpec) {
			s.Target.Secret = key("ca.pem")
			s.Target.AdditionalFormats = &trustmanager.AdditionalFormats{PKCS12: &trustmanager.PKCS12{KeySelector: trustmanager.KeySelector{Key: "ca.pem"}}}
		}, `spec.target.additionalFormats.pkcs12.key: Invalid value: "ca.pem": key must be unique across all target output keys`},
		{func(s *trustmanager.BundleSpec) {
			s.Target.ConfigMap.Metadata.Annotations = map[string]string{"trust.cert-manager.io/hash": "x"}
		}, `spec.target.configMap.metadata.annotations: Invalid value: "trust.cert-manager.io/hash": trust.cert-manager.io/* annotations are not allowed`},
		{func(s *trustmanager.BundleSpec) {
			s.Target.Secret = key("ca.pem")
			s.Target.Secret.Metadata.Labels = map[string]string{"trust-manager.io/x": "x"}
		}, `spec.target.secret.metadata.labels: Invalid value: "trust-manager.io/x": trust-manager.io/* labels are not allowed`},
		{func(s *trustmanager.BundleSpec) { s.Target.ConfigMap.Metadata.Labels = map[string]string{"a b": ""} },
			`spec.target.configMap.metadata.labels: Invalid value: "a b": name part`},
		{func(s *trustmanager.BundleSpec) { s.Target.NamespaceSelector = bad }, `spec.target.namespaceSelector.matchLabels: Invalid value: "a b": name part`},
	} {
		b := &trustmanager.Bundle{ObjectMeta: metav1.ObjectMeta{Name: "roots"}, Spec: trustmanager.BundleSpec{
			Sources: []trustmanager.BundleSource{{InLine: "x"}}, Target: trustmanager.BundleTarget{ConfigMap: key("ca.crt")},
		}}
		test.change(&b.Spec)
		if got := check(t, "bundles", b); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("got %q, want %q", got, test.want)
		}
		if got := check(t, "others", b); got != "" {
			t.Errorf("another kind is refused: %s", got)
		}
	}
}
