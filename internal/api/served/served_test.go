package served_test

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/internal/api/served"
)

func TestIsMissing(t *testing.T) {
	of := schema.GroupResource{Group: "certplane.dev", Resource: "acmeorders"}
	noKind := apierrors.NewGenericServerResponse(404, "get", of, "a", "404 page not found", 0, true)
	noKind.ErrStatus.Reason = metav1.StatusReasonNotFound
	for _, tc := range []struct {
		reason string
		err    error
		want   bool
	}{
		{"no error", nil, false},
		{"no object", apierrors.NewNotFound(of, "a"), false},
		{"no path", noKind, true},
		{"no path, wrapped", fmt.Errorf("reading: %w", noKind), true},
		{"no path of a group that is served", apierrors.NewGenericServerResponse(404, "", schema.GroupResource{}, "", "", 0, false), true},
		{"no kind", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "AcmeOrder"}}, true},
		{"another error", errors.New("404"), false},
	} {
		if got := served.IsMissing(tc.err); got != tc.want {
			t.Errorf("%s: %v", tc.reason, got)
		}
	}
}
