package csr_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestServerConditions(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("times", w.testTimes)
	t.Run("transition", w.testTransition)
	t.Run("decisions keep their content", w.testDecisionsKeepContent)
	t.Run("reasons of a decision", w.testEditDecision)
	t.Run("rules", w.testConditionRules)
	t.Run("acceptable certificates", w.testAcceptableCertificates)
	t.Run("unlikely orders", w.testUnlikelyOrders)
}

// Both subresources set the times that a client omits, with a precision of one
// second, and keep those that it sends.
func (w world) testTimes(t *testing.T) {
	past, future := metav1.Unix(1, 0), metav1.Unix(4_000_000_000, 0)
	for via, kind := range map[endpoint]certificatesv1.RequestConditionType{statusEndpoint: "Failed", approvalEndpoint: "Denied"} {
		obj := w.create(t, "times-"+via.String())
		before := time.Now().Truncate(time.Second)
		got := w.mustPut(t, via, changed(obj, func(c *csr) {
			c.Status.Conditions = []condition{
				{Type: kind, Status: "True"},
				{Type: "Past", Status: "False", LastUpdateTime: past},
				{Type: "Future", Status: "Unknown", LastTransitionTime: future},
			}
		})).Status.Conditions
		now := func(at metav1.Time) bool {
			return !at.Time.Before(before) && !at.After(time.Now()) && at.Nanosecond() == 0
		}
		if !now(got[0].LastUpdateTime) || !now(got[0].LastTransitionTime) {
			t.Errorf("%s: neither sent: %v", via, got[0])
		}
		if !got[1].LastUpdateTime.Equal(&past) || !now(got[1].LastTransitionTime) {
			t.Errorf("%s: update sent: %v", via, got[1])
		}
		if !now(got[2].LastUpdateTime) || !got[2].LastTransitionTime.Equal(&future) {
			t.Errorf("%s: transition sent: %v", via, got[2])
		}
	}
}

// The last transition time is taken from the first stored condition of the same
// type and status that has one.
func (w world) testTransition(t *testing.T) {
	at := func(seconds int64) metav1.Time { return metav1.Unix(seconds, 0) }
	with := func(status corev1.ConditionStatus, transition metav1.Time) condition {
		return condition{Type: "A", Status: status, LastUpdateTime: at(9), LastTransitionTime: transition}
	}
	var none metav1.Time
	for i, tc := range []struct {
		reason string
		stored []condition
		sent   condition
		want   metav1.Time // zero means now
	}{
		{"the status stays", []condition{with("True", at(5))}, with("True", none), at(5)},
		{"the status changes", []condition{with("True", at(5))}, with("False", none), none},
		{"the status changes but the client says when", []condition{with("True", at(5))}, with("False", at(5)), at(5)},
		{"the status stays but the client knows better", []condition{with("True", at(5))}, with("True", at(6)), at(6)},
		{"the first that matches", []condition{with("False", at(3)), with("True", none), with("True", at(4)), with("True", at(5))}, with("True", none), at(4)},
		{"nothing is stored", nil, with("True", none), none},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			for _, via := range []endpoint{statusEndpoint, approvalEndpoint} {
				obj := w.plant(t, fmt.Sprintf("transition-%d-%s", i, via), func(c *csr) { c.Status.Conditions = tc.stored })
				before := metav1.NewTime(time.Now().Truncate(time.Second))
				got := w.mustPut(t, via, changed(obj, func(c *csr) { c.Status.Conditions = []condition{tc.sent} })).Status.Conditions[0].LastTransitionTime
				if tc.want.IsZero() && got.Before(&before) || !tc.want.IsZero() && !got.Equal(&tc.want) {
					t.Errorf("%s: got %v, want %v", via, got, tc.want)
				}
			}
		})
	}
}

// Through /status, decisions stay unchanged, each in the position where the
// client put it, even if there are several.
func (w world) testDecisionsKeepContent(t *testing.T) {
	at := metav1.Unix(1_700_000_000, 0)
	decided := func(kind certificatesv1.RequestConditionType, reason string) condition {
		return condition{Type: kind, Status: "True", Reason: reason, LastUpdateTime: at, LastTransitionTime: at}
	}
	obj := w.plant(t, "pairs", func(c *csr) {
		c.Status.Conditions = []condition{decided("Denied", "1"), decided("Approved", "2"), decided("Denied", "3"), decided("Approved", "4")}
	})
	got := w.mustPut(t, statusEndpoint, changed(obj, func(c *csr) {
		c.Status.Conditions = []condition{
			{Type: "Approved", Status: "True", Reason: "x"}, {Type: "Failed", Status: "True", Reason: "new", LastUpdateTime: at, LastTransitionTime: at},
			{Type: "Approved", Status: "False", Reason: "y"}, {Type: "Denied", Status: "True"}, {Type: "Denied", Status: "True"},
		}
	}))
	want := []condition{decided("Approved", "2"), decided("Failed", "new"), decided("Approved", "4"), decided("Denied", "1"), decided("Denied", "3")}
	if diff := cmp.Diff(want, got.Status.Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

// Permanent conditions can still be edited: approvers can add to them later,
// even after the certificate has been issued.
func (w world) testEditDecision(t *testing.T) {
	obj := w.plant(t, "edit", timed("old", "Approved"), certificate(chain(t)))
	got := w.mustPut(t, approvalEndpoint, changed(obj, func(c *csr) {
		c.Status.Conditions[0].Reason, c.Status.Conditions[0].Message = "new", "better words"
	}))
	want := obj.Status.Conditions[0]
	want.Reason, want.Message = "new", "better words" // times do not change
	if diff := cmp.Diff([]condition{want}, got.Status.Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	_, err := put(t, w.admin, approvalEndpoint, changed(got, func(c *csr) { c.Status.Conditions[0].Status = "False" }))
	checkError(t, err, invalid("edit", `status.conditions[0].status: Unsupported value: "False": supported values: "True"`))
}

// The rules of each condition, in the order in which they are reported.
func (w world) testConditionRules(t *testing.T) {
	set := func(conditions ...condition) edit { return func(c *csr) { c.Status.Conditions = conditions } }
	const (
		exclusive = "Approved and Denied conditions are mutually exclusive"
		statuses  = `supported values: "False", "True", "Unknown"`
	)
	obj := w.create(t, "rules")
	for _, tc := range []struct {
		reason string
		sent   edit
		want   string
	}{
		{"no type, no status", set(condition{}), `[status.conditions[0].type: Required value, status.conditions[0].status: Required value]`},
		{"a made-up status", set(condition{Type: "A", Status: "Maybe"}), `status.conditions[0].status: Unsupported value: "Maybe": ` + statuses},
		{"not true", set(condition{Type: "Approved", Status: "False"}, condition{Type: "Failed", Status: "Unknown"}),
			`[status.conditions[0].status: Unsupported value: "False": supported values: "True", status.conditions[1].status: Unsupported value: "Unknown": supported values: "True"]`},
		{"a contradiction, and again", set(condition{Type: "Approved", Status: "True"}, condition{Type: "Denied", Status: "True"}, condition{Type: "Denied", Status: "True"}),
			`[status.conditions: Invalid value: "Denied": ` + exclusive + `, status.conditions[2].type: Duplicate value: "Denied"]`},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			_, err := put(t, w.admin, approvalEndpoint, changed(obj, tc.sent))
			checkError(t, err, invalid("rules", tc.want))
		})
	}
	_, err := put(t, w.admin, approvalEndpoint, changed(obj, conditions("Approved", "Denied", "Denied")))
	if causes := causesOf(t, err); len(causes) != 3 {
		t.Errorf("equal errors are not all among the causes: %v", causes)
	}
	_, err = put(t, w.admin, statusEndpoint, changed(obj, set(condition{}), certificate([]byte("text"))))
	checkError(t, err, invalid("rules", `[status.conditions[0].type: Required value, status.conditions[0].status: Required value, `+atLeastOne+`]`))
	w.mustPut(t, approvalEndpoint, changed(obj, set(condition{Type: "any words: will do!", Status: "Unknown"}, condition{Type: "B", Status: "False"})))
}

// A certificate is any number of blocks, with any text between them that is not
// a block. It need not match the request.
func (w world) testAcceptableCertificates(t *testing.T) {
	der := newCertificate(t, time.Hour)
	good := block("CERTIFICATE", der)
	broken := []byte("-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n")
	for i, data := range [][]byte{
		good,
		slices.Concat(good, good, good),
		block("CERTIFICATE", slices.Concat(der, der)),
		slices.Concat([]byte("before\n"), good, []byte("between\n"), good, []byte("after")),
		slices.Concat(broken, good), // a broken block is ignored
		{},
	} {
		obj := w.create(t, fmt.Sprintf("acceptable-%d", i))
		got := w.mustPut(t, statusEndpoint, changed(obj, certificate(data)))
		if !slices.Equal(data, got.Status.Certificate) {
			t.Errorf("certificate %d is stored as %s", i, got.Status.Certificate)
		}
	}
}

// A certificate does not require an approval.
func (w world) testUnlikelyOrders(t *testing.T) {
	obj := w.create(t, "unlikely")
	obj = w.mustPut(t, statusEndpoint, changed(obj, certificate(chain(t))))
	obj = w.mustPut(t, approvalEndpoint, changed(obj, conditions("Denied")))
	obj = w.mustPut(t, statusEndpoint, changed(obj, func(c *csr) {
		c.Status.Conditions = append(c.Status.Conditions, condition{Type: "Failed", Status: "True"})
	}))
	if len(obj.Status.Conditions) != 2 || len(obj.Status.Certificate) == 0 {
		t.Errorf("status is %v", obj.Status)
	}
}
