package orders

import (
	"net/http"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/acme/acmetest"
)

// A CA is away for an hour: half of it nobody answers, then a proxy says until
// when. The Order says so, asks rarely, and goes on by itself where it was.
func TestAwayForAnHour(t *testing.T) {
	for _, from := range []acmetest.Kind{acmetest.NewOrder, acmetest.Authorization, acmetest.Order, acmetest.Finalize, acmetest.Certificate} {
		t.Run(string(from), func(t *testing.T) {
			w := newWorld(t, acmetest.Options{})
			var left, back time.Time
			while, asked := "", 0
			w.ca.Change(func(o *acmetest.Options) {
				o.Hook = func(c acmetest.Call) *acmetest.Reply {
					now := w.clock.Now()
					if left.IsZero() && c.Kind == from {
						left, back = now, now.Truncate(time.Second).Add(time.Hour) // Retry-After has no fractions
					}
					switch {
					case left.IsZero() || !now.Before(back):
						return nil
					case now.Before(back.Add(-30 * time.Minute)):
						while, asked = "lost", asked+1
						return &acmetest.Reply{Lost: true}
					}
					while, asked = "unavailable", asked+1
					return &acmetest.Reply{
						Status: http.StatusServiceUnavailable, Body: "<html>maintenance</html>",
						Header: http.Header{"Retry-After": {back.UTC().Format(http.TimeFormat)}},
					}
				}
			})
			key := newKey(t)
			w.newOrder(t, "web", key, nil, "a.example.com")
			said := map[string]string{}
			o := w.until(t, "web", "ends", func(o *acmev1.Order) bool {
				if while != "" && w.clock.Now().Before(back) {
					said[while] = o.Status.Reason
				}
				return isDone(o)
			})
			w.issued(t, o, key)
			if want := "The CA cannot be reached"; !strings.HasPrefix(said["lost"], want) {
				t.Errorf("while nobody answers it says %q, want %s", said["lost"], want)
			}
			if want := "waiting until " + back.Add(time.Minute-time.Second).UTC().Truncate(time.Minute).Format(time.RFC3339); !strings.HasPrefix(said["unavailable"], want) {
				t.Errorf("before the end it says %q, want %s", said["unavailable"], want)
			}
			if late := w.clock.Now().Sub(back); late < -time.Second || late > 5*time.Minute || asked > 30 {
				t.Errorf("it was asked %d times, and ended %v after the CA was back", asked, late)
			}
			if orders := w.ca.Orders(); len(orders) != 1 || !orders[0].Signed {
				t.Errorf("%+v", orders)
			}
		})
	}
}
