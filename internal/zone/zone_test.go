package zone

import (
	"errors"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	at := time.Date(2031, 7, 1, 12, 0, 0, 0, time.UTC)
	for name, want := range map[string]string{
		"UTC": "12:00 Z", "utc": "12:00 Z", "GMT": "12:00 Z", "Z": "12:00 Z", "Europe/Oslo": "14:00 +02:00", "Asia/Kolkata": "17:30 +05:30",
		"America/New_York": "08:00 -04:00", "Etc/GMT+5": "07:00 -05:00", "UTC+2": "14:00 +02:00", "utc+02": "14:00 +02:00", "UTC-03:30": "08:30 -03:30",
		"UTC+5:30": "17:30 +05:30", "+05:30": "17:30 +05:30", "-0330": "08:30 -03:30", "GMT+1": "13:00 +01:00", "+14": "02:00 +14:00", "-12:00": "00:00 -12:00",
		"\u22125": "07:00 -05:00", "UTC+0": "12:00 Z",
	} {
		place, err := Parse(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := at.In(place).Format("15:04 Z07:00"); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for _, name := range []string{"", "Local", "local", "Mars/Olympus", "UTC+15", "UTC-12:01", "+1:5", "+1:60", "+123", "+", "UTC+", "../etc/passwd", "/etc/passwd", "Europe/", "UTC +2", "\x00", "5"} {
		if place, err := Parse(name); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q is %v, %v", name, place, err)
		}
	}
}
