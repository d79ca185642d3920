package trustbundle

import (
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// block returns a stand-in for a certificate, which is not parsed here.
func block(content string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(content)}))
}

func bundle(name, signer string, labels map[string]string, content ...string) *certificatesv1.ClusterTrustBundle {
	b := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer}}
	for _, c := range content {
		b.Spec.TrustBundle += "text around it\n" + block(c)
	}
	return b
}

func huge() *metav1.LabelSelector {
	values := make([]string, maxSelector/10)
	for i := range values {
		values[i] = fmt.Sprintf("value-%08d", i)
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: values}}}
}

func TestSelect(t *testing.T) {
	live := map[string]string{"stage": "live"}
	all := []*certificatesv1.ClusterTrustBundle{
		bundle("plain", "", nil, "z", "a"),
		bundle("example.com:s:1", "example.com/s", live, "c", "b"),
		bundle("example.com:s:2", "example.com/s", live, "b", "d"),
		bundle("example.com:s:3", "example.com/s", nil, "e"),
		bundle("example.com:t:1", "example.com/t", live, "f"),
	}
	byName := func(name string) *corev1.ClusterTrustBundleProjection {
		return &corev1.ClusterTrustBundleProjection{Name: &name}
	}
	bySigner := func(signer string, selector *metav1.LabelSelector) *corev1.ClusterTrustBundleProjection {
		return &corev1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: selector}
	}
	optional := func(source *corev1.ClusterTrustBundleProjection) *corev1.ClusterTrustBundleProjection {
		source.Optional = ptr.To(true)
		return source
	}
	everything := &metav1.LabelSelector{}
	tests := []struct {
		reason string
		source *corev1.ClusterTrustBundleProjection
		want   string // contents in order
		err    string
	}{
		{"by name, sorted", byName("plain"), "az", ""},
		{"of a signer by name", byName("example.com:s:1"), "bc", ""},
		{"missing", byName("nosuch"), "", `no ClusterTrustBundle "nosuch"`},
		{"missing, optional", optional(byName("nosuch")), "", ""},
		{"there, optional", optional(byName("plain")), "az", ""},
		{"of a signer, each once", bySigner("example.com/s", &metav1.LabelSelector{MatchLabels: live}), "bcd", ""},
		{"no selector", bySigner("example.com/s", nil), "", "no ClusterTrustBundle of signer"},
		{"no selector, optional", optional(bySigner("example.com/s", nil)), "", ""},
		{"an empty selector", bySigner("example.com/s", everything), "bcde", ""},
		{"a signer of that beginning", bySigner("example.com/", everything), "", "no ClusterTrustBundle of signer"},
		{"no such labels", bySigner("example.com/t", &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "test"}}), "", "stage=test"},
		{"an impossible selector", bySigner("example.com/t", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}), "", "reading the label selector"},
		{"a huge selector", bySigner("example.com/t", huge()), "", "bytes long, more than 102400"},
		{"nothing", &corev1.ClusterTrustBundleProjection{}, "", "neither name nor signerName"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			got, err := Select(all, tt.source)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Fatalf("error = %v, want %q", err, tt.err)
			}
			want := ""
			for _, c := range tt.want {
				want += block(string(c))
			}
			if string(got) != want {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
		})
	}
}
