package encryption

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewRoundTrips(t *testing.T) {
	keys := New()
	data, err := keys.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(keys, again); diff != "" {
		t.Errorf("reading what was written (-wrote +read):\n%s", diff)
	}
	if New().Fingerprint() == keys.Fingerprint() || again.Fingerprint() != keys.Fingerprint() {
		t.Error("fingerprints do not tell keys apart")
	}
}

func TestParseRefuses(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))
	tests := []struct{ reason, data, want string }{
		{"not a mapping", "kind: [" + secret, "not YAML"},
		{"another kind", "kind: Config", `kind is "Config"`},
		{"no resources", "kind: EncryptionConfiguration", "resources is empty"},
		{"a key in the wrong place", "kind: EncryptionConfiguration\nkey: " + secret, `unknown field "key"`},
		{"nothing is encrypted", providers("- identity: {}"), "resources[0].providers[0]"},
		{"somebody else's key", providers("- kms: {name: k, apiVersion: v2, endpoint: unix:///k}"), "resources[0].providers[0]"},
		{"an empty list", providers("- secretbox: {keys: []}"), "resources[0].providers[0]"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			_, err := Parse([]byte(tt.data))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want it to say %s", err, tt.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows a key: %v", err)
			}
		})
	}
}

func TestStages(t *testing.T) {
	tests := []struct {
		reason string
		keys   string // names, of one list a line
		want   Stage
	}{
		{"one key", "key1", Settled},
		{"a person's only key", "mine", Settled},
		{"the new key is last", "key1 key2", Added},
		{"ten is newer than nine", "key9 key10", Added},
		{"a person's key and a new one", "mine key1", Added},
		{"the new key is first", "key2 key1", Promoted},
		{"a person's two keys: the first encrypts", "mine old", Promoted},
		{"the newest hides in the middle", "key1 key3 key2", Added},
		{"one list is further than the other", "key2 key1\nkey1 key2", Added},
		{"one list is done", "key2 key1\nkey2", Promoted},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if got := named(tt.keys).Stage(); got != tt.want {
				t.Errorf("stage %v, want %v", got, tt.want)
			}
		})
	}
}

func TestRotation(t *testing.T) {
	for start, want := range map[string][]string{
		"key1":       {"key1 key2", "key2 key1", "key2"},
		"mine":       {"mine key1", "key1 mine", "key1"},
		"a\nkey7":    {"a key1\nkey7 key8", "key1 a\nkey8 key7", "key1\nkey8"},
		"key9 other": {"key9 other key10", "key10 key9 other", "key10"},
	} {
		keys := named(start)
		for i, step := range []func(){keys.Add, keys.Promote, keys.Drop} {
			step()
			if got := names(keys); got != want[i] {
				t.Errorf("%q after step %d: %q, want %q", start, i, got, want[i])
			}
		}
		if keys.Stage() != Settled {
			t.Errorf("%q does not settle", start)
		}
	}
}

func TestCovered(t *testing.T) {
	keys := &Keys{Resources: []resources{{Resources: []string{"secrets", "*.example.com"}}, {Resources: []string{"configmaps", "secrets"}}}}
	if diff := cmp.Diff([]string{"*.example.com", "configmaps", "secrets"}, keys.Covered()); diff != "" {
		t.Error(diff)
	}
}

func named(lists string) *Keys {
	keys := &Keys{}
	for list := range strings.SplitSeq(lists, "\n") {
		made := &keyList{}
		for name := range strings.FieldsSeq(list) {
			made.Keys = append(made.Keys, newKey(name))
		}
		keys.Resources = append(keys.Resources, resources{Providers: []provider{{AESGCM: made}}})
	}
	return keys
}

func names(keys *Keys) string {
	var lists []string
	for list := range keys.lists() {
		var names []string
		for _, key := range list.Keys {
			names = append(names, key.Name)
		}
		lists = append(lists, strings.Join(names, " "))
	}
	return strings.Join(lists, "\n")
}

func providers(yaml string) string {
	return "kind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  " + yaml
}
