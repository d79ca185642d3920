package clean

import (
	"errors"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestRetain(t *testing.T) {
	f := newFixture(t, newCSR("old", 25*time.Hour), newCSR("young", 5*time.Hour))
	if result, err := f.retain("young"); err != nil || result.RequeueAfter != 19*time.Hour+time.Nanosecond {
		t.Errorf("young: %+v, %v", result, err)
	}
	if result, err := f.retain("old"); err != nil || result != (reconcile.Result{}) {
		t.Errorf("old: %+v, %v", result, err)
	}
	if result, err := f.retain("gone"); err != nil || result != (reconcile.Result{}) {
		t.Errorf("gone: %+v, %v", result, err)
	}
	if !f.exists("young") || f.exists("old") || f.deleted("pending") != 1 {
		t.Errorf("young exists: %v, old exists: %v, counted: %v", f.exists("young"), f.exists("old"), f.deleted("pending"))
	}
	for _, fact := range []string{`"request"="old"`, `"uid"="uid-of-old"`, `"requester"="requester"`, `"reason"="pending"`, "1d1h"} {
		if !strings.Contains(f.log.String(), fact) {
			t.Errorf("the log lacks %s: %s", fact, f.log.String())
		}
	}
}

// A deletion is reported if the requester is still waiting, but not if there
// was an outcome to see.
func TestEventsAboutDeletions(t *testing.T) {
	for _, tc := range []struct {
		reason string
		csr    *csr
		want   string
	}{
		{"pending", newCSR("x", 25*time.Hour), "Normal Deleted Deleted without an outcome: it was created 1d1h ago"},
		{"approved", newCSR("x", 50*time.Hour, says("Approved", 25*time.Hour)), "Normal Deleted Deleted without an outcome: it was approved 1d1h ago"},
		{"undecided", newCSR("x", 200*time.Hour, says("Remark", 0)), "Normal Deleted Deleted without an outcome: it was created 8d8h ago"},
		{"denied", newCSR("x", 5*time.Hour, says("Denied", 2*time.Hour)), ""},
	} {
		f := newFixture(t, tc.csr)
		if _, err := f.retain("x"); err != nil || f.exists("x") {
			t.Fatalf("%s: not deleted: %v", tc.reason, err)
		}
		if got := f.told(); got != tc.want {
			t.Errorf("%s: event %q, want %q", tc.reason, got, tc.want)
		}
	}
}

// The cache can be stale: only the judged version of a request is deleted.
func TestJudgedAgain(t *testing.T) {
	for reason, meanwhile := range map[string]func(f *fixture, c *csr) error{
		"approved": func(f *fixture, c *csr) error {
			c.Status.Conditions = append(c.Status.Conditions, says("Approved", 0))
			return f.api.Status().Update(f.t.Context(), c)
		},
		"replaced": func(f *fixture, c *csr) error {
			successor := newCSR("x", 0)
			successor.UID = "uid-of-successor"
			return errors.Join(f.api.Delete(f.t.Context(), c), f.api.Create(f.t.Context(), successor))
		},
	} {
		f := newFixture(t, newCSR("x", 25*time.Hour))
		c := &csr{}
		if err := f.api.Get(f.t.Context(), client.ObjectKey{Name: "x"}, c); err != nil {
			t.Fatal(err)
		}
		stale := c.DeepCopy()
		if err := meanwhile(f, c); err != nil {
			t.Fatal(err)
		}
		f.cache = f.newAPI(stale)
		result, err := f.retain("x")
		if err != nil || result.RequeueAfter != time.Second || !f.exists("x") || f.deleted("pending") != 0 {
			t.Errorf("%s: %+v, %v, exists: %v", reason, result, err, f.exists("x"))
		}
	}
}

func TestDeleteFails(t *testing.T) {
	resource := schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}
	for _, tc := range []struct {
		reason  string
		failure error
		fails   bool
	}{
		{"somebody was faster", apierrors.NewNotFound(resource, "x"), false},
		{"not allowed", apierrors.NewForbidden(resource, "x", errors.New("RBAC")), true},
	} {
		f := newFixture(t, newCSR("x", 25*time.Hour))
		f.failure = tc.failure
		if _, err := f.retain("x"); (err != nil) != tc.fails || f.deleted("pending") != 0 || f.told() != "" {
			t.Errorf("%s: %v, counted %v", tc.reason, err, f.deleted("pending"))
		}
	}
}

// recorded records what a handler puts into the queue.
type recorded struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	added map[string]time.Duration
}

func (q recorded) AddWithOpts(o priorityqueue.AddOpts, requests ...reconcile.Request) {
	for _, r := range requests {
		q.added[r.Name] = o.After
	}
}

func (q recorded) Add(r reconcile.Request) { q.added[r.Name] = 0 }

func TestScheduleOfRetention(t *testing.T) {
	f := newFixture(t)
	r := &expirer{clock: f.clock, limits: f.settings.limits()}
	q := recorded{added: map[string]time.Duration{}}
	schedule := r.schedule()
	schedule.Create(t.Context(), event.CreateEvent{Object: newCSR("pending", time.Hour)}, q)
	schedule.Create(t.Context(), event.CreateEvent{Object: newCSR("due", 25*time.Hour)}, q)
	denied := newCSR("denied", time.Hour, says(certificatesv1.CertificateDenied, 10*time.Minute))
	schedule.Update(t.Context(), event.UpdateEvent{ObjectOld: newCSR("denied", time.Hour), ObjectNew: denied}, q)
	schedule.Create(t.Context(), event.CreateEvent{Object: &csr{}}, q) // never due
	schedule.Delete(t.Context(), event.DeleteEvent{Object: newCSR("deleted", 0)}, q)
	want := map[string]time.Duration{
		"pending": 23*time.Hour + 1, "due": 0, "denied": 50*time.Minute + 1, "deleted": 0,
	}
	if len(q.added) != len(want) {
		t.Errorf("scheduled: %v", q.added)
	}
	for name, after := range want {
		if got, ok := q.added[name]; !ok || got != after {
			t.Errorf("%s is scheduled in %v, want %v", name, got, after)
		}
	}
}

// A request is not deleted before its certificate is recorded, but ten minutes late at most.
func TestWaitsForRecord(t *testing.T) {
	recorded := false
	issued := newCSR("issued", 50*time.Hour, says(certificatesv1.CertificateApproved, 25*time.Hour))
	issued.Status.Certificate = []byte("a certificate")
	f := newFixture(t, issued.DeepCopy())
	f.recorded = func(string, types.UID) bool { return recorded }
	for _, wait := range []time.Duration{0, 5 * time.Minute, 4 * time.Minute} {
		f.clock.SetTime(f.clock.Now().Add(wait))
		if result, err := f.retain("issued"); err != nil || result.RequeueAfter != lookAgain || !f.exists("issued") {
			t.Fatalf("%v, %v, exists %t", result, err, f.exists("issued"))
		}
	}
	f.clock.SetTime(f.clock.Now().Add(time.Minute))
	if _, err := f.retain("issued"); err != nil || f.exists("issued") {
		t.Errorf("after ten minutes: %v, exists %t", err, f.exists("issued"))
	}

	f = newFixture(t, issued.DeepCopy())
	f.recorded = func(string, types.UID) bool { return recorded }
	if _, err := f.retain("issued"); err != nil || !f.exists("issued") {
		t.Fatal("it does not wait")
	}
	recorded = true
	if _, err := f.retain("issued"); err != nil || f.exists("issued") {
		t.Errorf("recorded: %v, exists %t", err, f.exists("issued"))
	}
}
