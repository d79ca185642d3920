package acmeclients

// programs are the clients of Debian and of npm, in the order of the page.
var programs = []program{
	{heading: "certbot", needs: []string{"certbot"}, want: outcome{issued: 3, revoked: 1}, chain: "/etc/letsencrypt/live/www.corp.example/fullchain.pem", name: "www.corp.example"},
	{heading: "lego", needs: []string{"lego"}, want: outcome{issued: 2, revoked: 1}},
}
