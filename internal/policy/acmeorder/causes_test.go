package acmeorder_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

func TestCausesOf(t *testing.T) {
	former := func(id string, until time.Duration) v1alpha1.CAStatus {
		return v1alpha1.CAStatus{SubjectKeyID: id, ReplacedTime: &metav1.Time{Time: now}, TrustedUntil: &metav1.Time{Time: now.Add(until)}}
	}
	signer := func(present string, cas ...v1alpha1.CAStatus) v1alpha1.Signer {
		return v1alpha1.Signer{Status: v1alpha1.SignerStatus{CA: &v1alpha1.CAStatus{SubjectKeyID: present}, FormerCAs: cas}}
	}
	earlier := v1alpha1.CAStatus{SubjectKeyID: "0a0b", TrustedUntil: &metav1.Time{Time: now.Add(time.Hour)}} // of a previous version
	for reason, of := range map[string]struct {
		signers []v1alpha1.Signer
		by      time.Time
	}{
		"none":                         {},
		"another CA":                   {[]v1alpha1.Signer{signer("ff", former("cc", time.Hour))}, time.Time{}},
		"its CA":                       {[]v1alpha1.Signer{signer("ff", former("cc", time.Hour), former("0a0b", 4*time.Hour))}, now.Add(2 * time.Hour)},
		"its CA, by two signers":       {[]v1alpha1.Signer{signer("ff", former("0a0b", 4*time.Hour)), signer("ff", former("0a0b", 2*time.Hour))}, now.Add(time.Hour)},
		"its CA, renewed with its key": {[]v1alpha1.Signer{signer("0a0b", former("0a0b", 4*time.Hour))}, time.Time{}},
		"it is not known since when":   {[]v1alpha1.Signer{signer("ff", earlier)}, time.Time{}},
	} {
		if c := acmeorder.CausesOf([]byte{10, 11}, of.signers); !c.ReplacedBy.Equal(of.by) || !of.by.IsZero() && !c.Since.Equal(now) {
			t.Errorf("%s: %+v", reason, c)
		}
	}
}
