//! `periods` of a policy: five cron fields that say when the policy applies. ("Periods syntax" in the runner's
//! `advanced-configuration.md`.)

use jiff::civil::DateTime;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The values of a field, one bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field(u64);

/// When a policy applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Period {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
    /// Whether both kinds of days are restricted. Then one of them is enough, as in cron.
    either_day: bool,
}

impl Period {
    /// Every minute.
    pub(super) const ALWAYS: &str = "* * * * *";

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err(format!(
                "{text:?} has {} fields; it needs five: minute, hour, day of month, month, day of week, as in \
                 \"* 8-17 * * mon-fri\"",
                fields.len()
            ));
        };
        let field = |what: &str, text: &str, from: u32, to: u32, names: &[&str]| {
            Field::parse(text, from, to, names).map_err(|words| format!("{what} {text:?}: {words}"))
        };
        let mut sundays = field("day of week", weekdays, 0, 7, &WEEKDAYS)?;
        // 7 means Sunday, like 0.
        sundays.0 |= (sundays.0 >> 7) & 1;
        Ok(Self {
            minutes: field("minute", minutes, 0, 59, &[])?,
            hours: field("hour", hours, 0, 23, &[])?,
            days: field("day of month", days, 1, 31, &[])?,
            months: field("month", months, 1, 12, &MONTHS)?,
            weekdays: sundays,
            either_day: !days.starts_with('*') && !weekdays.starts_with('*'),
        })
    }

    pub(super) fn holds(&self, at: DateTime) -> bool {
        let day = self.days.has(at.day());
        let weekday = self.weekdays.has(at.weekday().to_sunday_zero_offset());
        let is_day = if self.either_day { day || weekday } else { day && weekday };
        is_day && self.minutes.has(at.minute()) && self.hours.has(at.hour()) && self.months.has(at.month())
    }
}

impl Field {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| (self.0 >> value) & 1 == 1)
    }

    fn parse(text: &str, from: u32, to: u32, names: &[&str]) -> Result<Self, String> {
        let value = |text: &str| -> Result<u32, String> {
            let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
            let value = named.and_then(|index| u32::try_from(index).ok()).map(|index| index + u32::from(from == 1));
            let value = value.or_else(|| text.parse().ok()).filter(|value| (from..=to).contains(value));
            value.ok_or_else(|| format!("expected a number from {from} to {to}, found {text:?}"))
        };
        let mut bits = 0;
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, Some(step)),
                None => (part, None),
            };
            let every = match step {
                Some(step) => step
                    .parse::<usize>()
                    .ok()
                    .filter(|step| *step > 0)
                    .ok_or_else(|| format!("expected a whole number from 1 after the slash, found {step:?}"))?,
                None => 1,
            };
            let (first, last) = match range.split_once('-') {
                _ if range == "*" => (from, to),
                Some((first, last)) => (value(first)?, value(last)?),
                None if step.is_some() => (value(range)?, to),
                None => (value(range)?, value(range)?),
            };
            if first > last {
                return Err(format!("{range:?} begins after its end"));
            }
            bits |= (first..=last).step_by(every).fold(0, |bits, value| bits | (1_u64 << value));
        }
        Ok(Self(bits))
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    fn holds(period: &str, at: DateTime) -> bool {
        Period::parse(period).unwrap().holds(at)
    }

    #[test]
    fn periods_hold_when_gitlabs_documentation_says_so() {
        let monday = |hour, minute| date(2026, 8, 3).at(hour, minute, 0, 0);
        let sunday = |hour, minute| date(2026, 8, 9).at(hour, minute, 0, 0);
        assert!(holds("* * * * *", monday(3, 59)));
        let office = "* 8-15 * * mon-fri";
        assert!(holds(office, monday(8, 0)) && holds(office, monday(15, 59)));
        assert!(!holds(office, monday(16, 0)) && !holds(office, monday(7, 59)) && !holds(office, sunday(12, 0)));
        assert!(holds("0-30 13,16 * * SUN", sunday(16, 30)) && !holds("0-30 13,16 * * SUN", sunday(16, 31)));
        assert!(
            holds("* * * * 7", sunday(1, 1)) && holds("* * * * 0", sunday(1, 1)) && !holds("* * * * 7", monday(1, 1))
        );
        assert!(holds("* 0-12/2 * * *", monday(12, 5)) && !holds("* 0-12/2 * * *", monday(11, 5)));
        assert!(holds("*/20 * * aug *", monday(0, 40)) && !holds("*/20 * * 7 *", monday(0, 40)));
        assert!(holds("* * 1 * mon", monday(0, 0)), "one kind of day is enough where both are restricted");
        assert!(!holds("* * 1 * *", monday(0, 0)));
    }

    #[test]
    fn what_is_no_period_is_refused_with_the_field_that_is_wrong() {
        for (text, words) in [
            ("1 * * * * *", "has 6 fields; it needs five"),
            ("* 24 * * *", "hour \"24\": expected a number from 0 to 23"),
            ("* * * * mo", "day of week \"mo\""),
            ("* 17-8 * * *", "begins after its end"),
            ("*/0 * * * *", "after the slash"),
            ("* * 0 * *", "day of month \"0\""),
        ] {
            let said = Period::parse(text).unwrap_err();
            assert!(said.contains(words), "{text}: {said}");
        }
    }
}
