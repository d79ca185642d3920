package rollover

import (
	"testing"
	"time"
)

func TestOrphan(t *testing.T) {
	declared := Signer{Name: "a/b", Overlap: 24 * time.Hour, Declared: true}
	text, at := content(t, root(t, "a", 30*day)), now
	other := Signer{Name: "a/b"}
	for _, tc := range []struct {
		reason         string
		signer         Signer
		until          time.Duration // 0: no annotation
		known          bool
		update, delete int
	}{
		{"of a signer that may come still", declared, 0, false, 0, 0},
		{"of a signer that is gone", declared, 0, true, 1, 0},
		{"of a signer that is gone for a while", declared, time.Hour, true, 0, 0},
		{"whose time has come, whoever may come", declared, -time.Hour, false, 0, 1},
		{"that no Signer object has declared", other, 0, true, 0, 0},
		{"of old roots of such", other, -time.Hour, true, 0, 1},
	} {
		b := tc.signer.newBundle(text)
		if tc.until != 0 {
			b.Annotations = withEntry(b.Annotations, UntilAnnotation, at.Add(tc.until).Format(time.RFC3339))
		}
		plan := Orphan(b, tc.known, at)
		if len(plan.Update) != tc.update || len(plan.Delete) != tc.delete || len(plan.Create) != 0 {
			t.Errorf("%s: %+v", tc.reason, plan)
		}
		if tc.update == 1 {
			want := at.Add(24 * time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339)
			if got := plan.Update[0].Annotations[UntilAnnotation]; got != want {
				t.Errorf("%s: it stays until %s, want %s", tc.reason, got, want)
			}
		}
	}
}
