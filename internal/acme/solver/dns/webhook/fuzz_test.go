package webhook

import "testing"

// FuzzAnswer reads answers of DNS webhooks.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"response":{"success":true}}`))
	f.Add([]byte(`{"response":{"success":false,"status":{"message":"x","reason":"y"}}}`))
	f.Add([]byte(`{"kind":"Status","message":"x"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if err := judge(body); err != nil && err.Error() == "" {
			t.Error("an error without a text")
		}
		if len(messageIn(body)) > maxBody {
			t.Error("a message of any length")
		}
	})
}
