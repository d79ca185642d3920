package acmeorder_test

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

const aDay = 24 * time.Hour

func TestRetainOrder(t *testing.T) {
	e := endpoint(t)
	pending := newOrder(t, e, dns("a.corp.example")...)
	issued, _, _ := valid(t, e, dns("a.corp.example")...)
	failed := finalized(t, e, newKey(t), dns("a.corp.example")...)
	failed = changed(t, failed, acmeorder.Fail(failed, rfc8555.NewProblem(403, "unauthorized", "denied"), nil, now))
	wrong := failed.DeepCopy()
	wrong.Status.Certificate = issued.Status.Certificate.DeepCopy()
	for _, tc := range []struct {
		reason string
		order  *v1alpha1.AcmeOrder
		after  time.Duration
		delete bool
		store  bool
		again  time.Duration
	}{
		{"pending", pending, 0, false, false, aDay + time.Minute},
		{"pending, past its end", pending, aDay + time.Minute, false, true, 0},
		{"processing", finalized(t, e, newKey(t), dns("a.corp.example")...), aDay, false, false, 7*aDay + time.Minute},
		{"invalid", failed, aDay - time.Second, false, false, aDay},
		{"invalid for a day", failed, aDay, true, false, 0},
		{"invalid, with a certificate", wrong, aDay - time.Second, false, false, aDay},
		{"invalid for a day, with a certificate", wrong, aDay, false, true, 7 * aDay},
		{"invalid for a week, with a certificate", wrong, 7 * aDay, false, true, 31 * aDay},
		{"invalid, and its certificate has expired", wrong, 31 * aDay, true, false, 0},
		{"valid", issued, 0, false, false, aDay},
		{"valid for a day", issued, aDay, false, true, 7 * aDay},
		{"valid for a week", issued, 7 * aDay, false, true, 31 * aDay},
		{"its certificate has expired", issued, 31*aDay - time.Second, false, true, 31 * aDay},
		{"for a day", issued, 31 * aDay, true, false, 0},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			at := now.Add(tc.after)
			r := acmeorder.RetainOrder(tc.order, e.Spec().Orders, at)
			again := time.Duration(0)
			if !r.Again.IsZero() {
				again = r.Again.Sub(now)
			}
			if r.Delete != tc.delete || (r.Status != nil) != tc.store || again != tc.again {
				t.Errorf("%+v, again after %v", r, again)
			}
			if r.Status == nil {
				return
			}
			if r.Final != (tc.store && tc.after >= 7*aDay) {
				t.Errorf("final: %v", r.Final)
			}
			if next := acmeorder.RetainOrder(changed(t, tc.order, r.Status), e.Spec().Orders, at); next.Status != nil || next.Delete {
				t.Errorf("what was stored is changed again: %+v", next)
			}
		})
	}
	day := acmeorder.RetainOrder(issued, e.Spec().Orders, now.Add(aDay)).Status
	a := day.Authorizations[0]
	if len(day.CSR) != 0 || day.Certificate.Chain == "" || len(a.Challenges) != 1 || a.Challenges[0].Validated == nil || a.Challenges[0].Token != "" || a.Identifier.Value != "a.corp.example" {
		t.Errorf("after a day: %+v", day)
	}
	if kept := acmeorder.RetainOrder(wrong, e.Spec().Orders, now.Add(7*aDay)).Status; kept.Certificate.Chain != "" || kept.Error == nil || len(kept.Conditions) == 0 {
		t.Errorf("of an invalid order, after a week: %+v", kept)
	}
	week := acmeorder.RetainOrder(issued, e.Spec().Orders, now.Add(7*aDay)).Status
	if week.Certificate.Chain != "" || week.Certificate.Serial == "" || len(week.Conditions) > 0 || week.Request.UID == "" {
		t.Errorf("after a week: %+v", week.Certificate)
	}
}

func TestRetainAccount(t *testing.T) {
	used := func(a *v1alpha1.AcmeAccount) { a.Status.Ordered = true }
	ended := func(a *v1alpha1.AcmeAccount) { a.Status.Ended = moment(now); a.Status.Ordered = true }
	made := -time.Hour // the age of account
	for _, tc := range []struct {
		reason  string
		account *v1alpha1.AcmeAccount
		use     acmeorder.AccountUse
		until   time.Duration
	}{
		{"never ordered", account(), acmeorder.AccountUse{}, 30*aDay + made},
		{"has ordered", account(used), acmeorder.AccountUse{}, 365*aDay + made},
		{"has a live certificate", account(used), acmeorder.AccountUse{Live: now.Add(400 * aDay)}, 401 * aDay},
		{"deactivated", account(ended), acmeorder.AccountUse{Ended: true}, 30 * aDay},
		{"deactivated, with a live certificate", account(ended), acmeorder.AccountUse{Ended: true, Live: now.Add(40 * aDay)}, 41 * aDay},
		{"was seen", account(used, func(a *v1alpha1.AcmeAccount) { a.Status.LastSeen = moment(now.Add(aDay)) }), acmeorder.AccountUse{}, 366 * aDay},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			until := now.Add(tc.until)
			if r := acmeorder.RetainAccount(tc.account, tc.use, until.Add(-time.Second)); r.Delete || !r.Again.Equal(until) {
				t.Errorf("before: %+v", r)
			}
			if r := acmeorder.RetainAccount(tc.account, tc.use, until); !r.Delete {
				t.Errorf("at the end: %+v", r)
			}
			tc.use.Open = true
			if r := acmeorder.RetainAccount(tc.account, tc.use, until.Add(400*aDay)); r.Delete {
				t.Error("an account with an open order is deleted")
			}
		})
	}
}

func TestRetainKey(t *testing.T) {
	key := &v1alpha1.AcmeAccountKey{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: now}}}
	retired := key.DeepCopy()
	retired.Spec.Retired = moment(now)
	for _, tc := range []struct {
		reason              string
		key                 *v1alpha1.AcmeAccountKey
		exists, deactivated bool
		at                  time.Time
		want                acmeorder.KeyRetention
	}{
		{"of an account", key, true, false, now.Add(1000 * aDay), acmeorder.KeyRetention{}},
		{"retired, of an account", retired, true, false, now.Add(1000 * aDay), acmeorder.KeyRetention{}},
		{"of an account that is deleted after it was deactivated", key, true, true, now, acmeorder.KeyRetention{Retire: true}},
		{"retired, and the account is gone", retired, false, false, now.Add(364 * aDay), acmeorder.KeyRetention{Again: now.Add(365 * aDay)}},
		{"retired a year ago", retired, false, false, now.Add(365 * aDay), acmeorder.KeyRetention{Delete: true}},
		{"just made", key, false, false, now, acmeorder.KeyRetention{Again: now.Add(time.Minute)}},
		{"debris", key, false, false, now.Add(time.Minute), acmeorder.KeyRetention{Delete: true}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if got := acmeorder.RetainKey(tc.key, tc.exists, tc.deactivated, tc.at); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestSeen(t *testing.T) {
	a := account()
	s := acmeorder.Seen(a, now)
	if s == nil || !s.LastSeen.Time.Equal(now.Truncate(aDay)) {
		t.Fatalf("%+v", s)
	}
	a.Status = *s
	if acmeorder.Seen(a, now.Add(time.Hour)) != nil {
		t.Error("the same day is written twice")
	}
	if acmeorder.Seen(a, now.Add(aDay)) == nil {
		t.Error("the next day is not written")
	}
}

// What is left of an order after a week is about a KiB, however many there are.
func TestBytesOfAnOrder(t *testing.T) {
	e := endpoint(t)
	o, _, _ := valid(t, e, dns("a.corp.example")...)
	size := func(o *v1alpha1.AcmeOrder) int {
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return len(data)
	}
	whole := size(o)
	day := changed(t, o, acmeorder.RetainOrder(o, e.Spec().Orders, now.Add(aDay)).Status)
	week := changed(t, day, acmeorder.RetainOrder(day, e.Spec().Orders, now.Add(8*aDay)).Status)
	t.Logf("an order has %d bytes when it is valid, %d after a day, %d after a week", whole, size(day), size(week))
	if whole > 8<<10 || size(day) >= whole || size(week) > 5<<8 {
		t.Errorf("an order has %d bytes when it is valid, %d after a day, %d after a week", whole, size(day), size(week))
	}
}
