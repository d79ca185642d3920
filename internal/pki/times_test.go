package pki_test

import (
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

func TestMoments(t *testing.T) {
	none, one, two := time.Time{}, time.Unix(1, 0), time.Unix(2, 0)
	for _, test := range []struct {
		what      string
		got, want time.Time
	}{
		{"earlier", pki.Earlier(two, one), one},
		{"earlier, of which one is zero", pki.Earlier(two, none), none},
		{"later", pki.Later(one, two), two},
		{"soonest", pki.Soonest(none, two, one, none), one},
		{"soonest of nothing", pki.Soonest(none, none), none},
	} {
		if !test.got.Equal(test.want) {
			t.Errorf("%s is %v, want %v", test.what, test.got, test.want)
		}
	}
}
