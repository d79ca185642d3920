package controllermanager

import (
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// The report names the kinds whose caches are not filled, and not the others.
func TestUnfilled(t *testing.T) {
	w := &waits{}
	make := w.tracking(nil)
	lists := &toolscache.ListWatch{}
	make(lists, &corev1.Namespace{}, 0, nil)
	stopped := make(lists, &certificatesv1.CertificateSigningRequest{}, 0, nil)
	make(lists, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "Signer"}}, 0, nil)
	if got := w.unfilled(); !slices.Equal(got, []string{"CertificateSigningRequest", "Namespace", "Signer"}) {
		t.Errorf("unfilled are %v", got)
	}
	ended := closed()
	stopped.Run(ended)
	if got := w.unfilled(); !slices.Equal(got, []string{"Namespace", "Signer"}) {
		t.Errorf("after one was stopped, unfilled are %v", got)
	}
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
