package acmeclients

// programs are the clients of Debian and of npm, in the order of the page.
var programs = []program{
	{heading: "certbot", needs: []string{"certbot"}, want: outcome{issued: 3, revoked: 1}, chain: "/etc/letsencrypt/live/www.corp.example/fullchain.pem", name: "www.corp.example"},
	{heading: "lego", needs: []string{"lego"}, want: outcome{issued: 2, revoked: 1}},
	{heading: "dehydrated", needs: []string{"dehydrated"}, web: true, want: outcome{issued: 2, revoked: 1}, chain: "certs/web.corp.example/fullchain.pem", name: "web.corp.example"},
	{heading: "uacme", needs: []string{"uacme"}, web: true, want: outcome{issued: 2, revoked: 1}},
	{heading: "acme-tiny", needs: []string{"acme-tiny", "openssl"}, web: true, want: outcome{issued: 2}, chain: "renewed.crt", name: "web.corp.example"},
	{heading: "acmetool", needs: []string{"acmetool"}, want: outcome{issued: 2}, chain: "/var/lib/acme/live/web.corp.example/fullchain", name: "web.corp.example"},
	{heading: "lacme", needs: []string{"/usr/sbin/lacme", "lacme-accountd", "/usr/share/perl5/LWP/Protocol/https.pm", "openssl"}, want: outcome{issued: 2, revoked: 1}, chain: "/etc/lacme/web.crt", name: "web.corp.example"},
	{heading: "Caddy", needs: []string{"caddy"}, want: outcome{issued: 2}, chain: ".local/share/caddy/certificates/acme.corp.example-8443-acme-corp-directory/web.corp.example/web.corp.example.crt", name: "web.corp.example"},
	{heading: "Apache", needs: []string{"apachectl", "/usr/lib/apache2/modules/mod_md.so"}, want: outcome{issued: 2}, chain: "/var/lib/apache2/md/domains/web.corp.example/pubcert.pem", name: "web.corp.example"},
	{heading: "acme-client", needs: []string{"node", npm}, want: outcome{issued: 2, revoked: 1}, chain: "web.crt", name: "web.corp.example"},
	{heading: "ruby-acme-client", needs: []string{"ruby", "/usr/share/rubygems-integration/all/gems/acme-client-2.0.9/lib/acme-client.rb"}, web: true, want: outcome{issued: 2, revoked: 1}, chain: "web.crt", name: "web.corp.example"},
	{heading: "With an external key", needs: []string{"certbot", "lego", "caddy", "uacme"}, want: outcome{issued: 4}, chain: "uacme/host.known.shop.corp.example/cert.pem", name: "host.known.shop.corp.example"},
}

// npm stands for the folder with the packages of npm.
const npm = "npm/node_modules/acme-client"
