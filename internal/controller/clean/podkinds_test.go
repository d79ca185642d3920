package clean

import (
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// A request keeps its size in the cache, however often it is stripped.
func TestShortenedRequestsKeepTheirSize(t *testing.T) {
	request := &certificatesv1.PodCertificateRequest{}
	request.Name, request.Spec.NodeName, request.Annotations = "r", "n", map[string]string{"large": strings.Repeat("x", 10<<10)}
	want := viewOf(request)
	for range 2 {
		shortened, err := onlyWhatCounts(request)
		if err != nil {
			t.Fatal(err)
		}
		request = shortened.(*certificatesv1.PodCertificateRequest)
	}
	if got := viewOf(request); got != want || got.Bytes < 10<<10 || request.Size() > 1<<10 {
		t.Errorf("got %+v of %d bytes, want %+v", got, request.Size(), want)
	}
}
