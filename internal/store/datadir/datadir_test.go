package datadir

import (
	"path/filepath"
	"testing"
)

func TestResolve(t *testing.T) {
	cwd, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		reason string
		flag   string
		env    map[string]string
		uid    int
		want   Dir
	}{
		{
			reason: "the flag is the last word",
			flag:   "/srv/flag",
			env:    map[string]string{Env: "/srv/env", "HOME": "/home/kim"},
			want:   "/srv/flag",
		},
		{
			reason: "the environment beats every default",
			env:    map[string]string{Env: "/srv/env", "HOME": "/home/kim"},
			want:   "/srv/env",
		},
		{
			reason: "root runs it as a system service",
			env:    map[string]string{"HOME": "/root", "XDG_DATA_HOME": "/root/data"},
			want:   "/var/lib/certplane",
		},
		{
			reason: "users keep data where the desktop specification says",
			env:    map[string]string{"HOME": "/home/kim", "XDG_DATA_HOME": "/data/kim"},
			uid:    1000,
			want:   "/data/kim/certplane",
		},
		{
			reason: "a relative XDG_DATA_HOME is ignored",
			env:    map[string]string{"HOME": "/home/kim", "XDG_DATA_HOME": "data"},
			uid:    1000,
			want:   "/home/kim/.local/share/certplane",
		},
		{
			reason: "a relative path is taken from the working directory",
			flag:   "data",
			uid:    1000,
			want:   Dir(filepath.Join(cwd, "data")),
		},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			got, err := Resolve(tt.flag, Host{Getenv: func(k string) string { return tt.env[k] }, UID: tt.uid})
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("Resolve(%q) = %q, want %q", tt.flag, got, tt.want)
			}
		})
	}
}

func TestResolveWithoutHome(t *testing.T) {
	if dir, err := Resolve("", Host{Getenv: func(string) string { return "" }, UID: 1000}); err == nil {
		t.Errorf("Resolve without flag, environment and home = %q, want an error", dir)
	}
}

func TestAdminKubeconfig(t *testing.T) {
	if got, want := Dir("/srv/cp").AdminKubeconfig(), "/srv/cp/admin.kubeconfig"; got != want {
		t.Errorf("AdminKubeconfig() = %q, want %q", got, want)
	}
}
