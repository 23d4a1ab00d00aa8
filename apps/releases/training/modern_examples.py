"""Messages of our own writing, for what the public data lacks: today's group-chat abuse.

Most public Chinese adverts are text messages of 2015, and real group chats are scarce. These
patterns fill the gap: contact bait, part-time jobs, gambling, rebates, crypto, loans, boosting,
fake documents and raids, in English and Chinese, and beside each an ordinary sentence about the same thing, so
that neither a word like "casino" nor the name of a people becomes a verdict by itself.

`{a|b}` is a choice, choices nest, `<id>` and `<n>` are drawn at random. The patterns of one kind in
three are kept out of training (`is_held_out`) and only measured.
"""

import random
import re
from dataclasses import dataclass

from apps.releases.training.corpus import Row

SOURCE = "own_patterns"
HELD_OUT_EVERY = 3
CHOICE = re.compile(r"\{([^{}]*)\}")
CONTACT_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


@dataclass(frozen=True, slots=True)
class Kind:
    """Patterns of one kind of message, with the label they all have."""

    name: str
    label: str
    lang: str
    patterns: tuple[str, ...]


KINDS = (
    Kind("contact_bait", "spam", "en", (
        "{hey|hi|hello} {dear|handsome|friend}, {add|text|message} me on {telegram|whatsapp|line|signal} {@|}<id> {for private pics|i have something for you|we can have fun}",
        "i am {alone|bored|lonely} tonight, {dm|write|text} me {on telegram|on whatsapp|} <id> {kisses|no strings|verified girls only}",
        "{lovely|cute|hot} girl {looking for|wants} {a boyfriend|a sugar daddy|new friends}, my {snap|telegram|number} is <id>, {add me now|don't be shy}",
        "{my|see my} private {photos|videos|channel} {here|now}: t.me/<id> {free for the first <n>|only today|18+}",
        "who wants {nudes|private video}? {inbox|dm} me, {telegram|snap}: <id>",
        "i dropped you a message, {check|see} your inbox or {write|ping} me at {whatsapp|telegram} +<n><n><n> {urgent|it is about your money|you will thank me}",
        "{new here|just joined}, {who|anyone} wants to {chat|have fun} {privately|in private}? my {tg|telegram|line} is <id>",
        "{write|text} {me|to me} {first|now}, i {answer|reply} to {everyone|all}: {telegram|whatsapp} <id> {xoxo|kisses|}",
        "{hot|sexy} {singles|girls|women} {near you|in your area} {waiting|online now}, {tap|click} <id>.{date|club|xyz}",
        "{my name is|i am} {lisa|kate|maria}, <n> {years old|}, {looking for|i want} a {serious|generous} man, {add|find} me: <id>",
        "{i have|got} a {surprise|gift} for you, {come to|open} my {profile|bio} and {click|press} the link {before it's gone|}",
        "{pm|dm} me {for|to get} {premium|leaked} {content|videos}, {first ten|today} free, @<id>",
    )),
    Kind("part_time_job", "spam", "en", (
        "{earn|make} ${200|300|500} {a day|daily|per day} {from home|with only your phone|online}, no {experience|skills} needed, {contact|message} <id> {on telegram|on whatsapp|}",
        "we are {hiring|recruiting} {online|remote} {assistants|agents}, {like videos|rate hotels|review products} and get paid {$<n>0 a task|daily}. {write to|dm} <id>",
        "part time {job|work}, {1|2} hours a day, weekly {pay|salary} ${700|900|1500}, only {5|10} places left, telegram @<id>",
        "i made ${2000|3500|5000} this week with this {simple|easy} {system|job}, ask me how, {dm|inbox} me",
        "{mothers|students|everyone} can earn {extra|real} income at home, {payment|payout} same day, {join|register}: http://<id>.{top|xyz|vip}",
        "hr from a {global|known} company: we {need|want} {30|50} people for {data entry|app rating}, <n>0 usd per {order|task}, reply YES",
        "{looking|searching} for {5|10|20} people who want to {earn|make} {from|at least} ${100|250} {per day|daily}, {remote|online}, {write|send} + {in private|to @<id>}",
        "{need|we need} {partners|people} for {a new project|remote work}, {free training|we teach you}, income {from|over} ${500|900} a week, {dm|write} <id>",
        "{easy|simple} {tasks|clicks} on your phone, {2|3} {hours|minutes} a day, {withdraw|get paid} {every day|instantly}, {link|register}: <id>.{site|online}",
        "{amazon|tiktok|shopee} {is looking for|hires} {agents|part timers}, {salary|pay} ${300|600} a day, {whatsapp|contact} +<n><n><n>",
        "{stop|quit} {working|slaving} for {someone else|your boss}, {join|be part of} my team and {earn|make} {passive|real} income, {comment|type} INFO",
        "{legal|official} {side job|work}, {no investment|nothing to pay}, age 18+, {details|everything} in {private messages|dm}, {only|just} {3|7} {spots|people} left",
    )),
    Kind("gambling", "spam", "en", (
        "{play|join} {online casino|slots|live baccarat|sports betting} at <id>.{com|bet|vip} and get {100%|200%|300%} {bonus|welcome bonus} on first deposit",
        "{jackpot|free spins|big win} {waiting|tonight}, {deposit|register} now at <id>.bet, {instant|fast} withdrawal",
        "{sure|fixed} {odds|matches|bets} {today|tonight}, {100% win|no loss}, join our vip {channel|group} t.me/<id>",
        "{won|i won} ${8000|12000} on {slots|roulette|baccarat} yesterday, use my {code|link} <id> for {50|100} free spins",
        "best {betting|casino} site with crypto, no kyc, {cashback|rakeback} every week -> <id>.casino",
        "{our|the} tipster hit <n> of <n> last night, vip slip is ${20|30}, {write|dm} for it before kick off",
        "{daily|today's} {football|basketball} {tips|predictions}, odds {2|5|10}.<n>, {join|subscribe} {free|vip}: t.me/<id>",
        "{deposit|put} ${10|20} and {play|get} with ${50|100}, {the hottest|new} {slots|crash games} at <id>.{win|bet|games}",
        "{register|sign up} with {promo code|code} <id> and {receive|grab} {free spins|a bonus} {no deposit|right away}",
        "{i|my cousin} {turned|made} ${50|100} into ${3000|7000} {playing|with} {aviator|crash|plinko}, {link|bot}: <id>",
        "{poker|rummy|teen patti} with {real money|cash}, {withdraw|payout} in {1|5} minutes, download {the app|apk} <id>.{top|app}",
    )),
    Kind("crypto", "spam", "en", (
        "{invest|put in} ${100|200|500} in {bitcoin|eth|usdt} and {get|receive} ${1000|3000|5000} in {24 hours|3 days|one week}, {dm|contact} @<id>",
        "{thanks to|all thanks to} {expert|coach|mrs} {anna|james|linda} who helped me trade {forex|crypto} with profit, {reach|message} her on {telegram|whatsapp} <id>",
        "{airdrop|giveaway|presale} is live! connect your wallet at <id>.{io|app|xyz} and claim {500|1000|2500} {usdt|tokens} before it ends",
        "{pump|next 100x gem} {today|in 1 hour}, {join|enter} the signal group t.me/<id>, {guaranteed|proven} profit",
        "i recover {lost|stolen} crypto and hacked wallets, 100% {success|legit}, write <id>",
        "your wallet must be {verified|validated|synchronised}: open <id>.{app|net} and enter your {seed|recovery} phrase to {avoid suspension|keep your coins}",
        "{double|triple} your {btc|eth|usdt} {today|within 2 hours}: send {0.1|0.5} to {this wallet|the address} <id><id><id>",
        "{i|we} {manage|trade} {accounts|forex accounts}, {minimum|start with} ${200|300}, {weekly|daily} profit {30|40|50}%, {dm|inbox} for {details|proof}",
        "{token|coin} {launch|listing} {tonight|tomorrow} on {binance|kucoin}, {buy|ape in} before, contract <id><id>",
        "{copy|follow} my {trades|signals}, {95|90}% {win rate|accuracy}, {join|enter} the {free|vip} channel @<id>",
        "{usdt|btc} {exchange|p2p} at {best|+5%} rate, {clean|verified} {money|funds}, {no kyc|fast}, {write|ask} @<id>",
    )),
    Kind("loans", "spam", "en", (
        "{need|want} {a loan|urgent cash|money today}? {approved|paid out} in {10|30} minutes, no credit check, {whatsapp|telegram} <id>",
        "{personal|business|payday} loans from ${1000|5000} to ${50000|90000} at {2%|3%} interest, bad credit ok, {apply|contact} <id>",
        "we {clean|fix|repair} your credit score and give {loans|credit lines} without {papers|documents}, dm <id>",
        "get your {loan|cash advance} today, only {id card|phone number} needed, {fast|instant} approval http://<id>.{top|cc}",
        "{private|honest} lender here, send your {name|income} and {account|card} number to <id> and the money is in your account tonight",
        "{do you need|are you looking for} {financial help|a quick loan|money}? {we offer|get} up to ${10000|75000} at {2|3}%, {email|contact} <id>",
        "{instant|same day} {cash|funding}, {no|zero} {collateral|paperwork}, {pay back|repay} in {12|36} months, {message|whatsapp} +<n><n><n>",
        "{debt|credit cards} {killing you|too high}? {we|i} {erase|settle} it {legally|fast}, {call|text} <n><n>",
    )),
    Kind("fake_documents", "spam", "en", (
        "{buy|order} {real|registered|genuine} {passport|driving licence|id card|ielts certificate} {without exam|online}, {whatsapp|telegram} <id>",
        "{diplomas|degrees|transcripts} from any {university|school}, verifiable, {fast|discreet} delivery, contact <id>",
        "we sell {cloned cards|bank logs|verified accounts|fake bills} grade a, {shipping|delivery} worldwide, telegram @<id>",
        "{visa|work permit|residence card} in {7|14} days guaranteed, no {interview|papers}, write <id>",
        "need a {doctor's note|covid certificate|payslip} with stamp? looks real, {cheap|from $<n>0}, ask <id>",
        "{driver licence|passport|visa} {help|service}, {all countries|any country}, {registered in the database|scannable}, {pay after|half upfront}, tg <id>",
        "{selling|have} {bank accounts|drops|sim cards} {with full access|verified}, {bulk|ready now}, {write|pm} @<id>",
        "{pass|get} your {ielts|toefl|pte} {without|no} {test|exam}, {real|original} certificate {in 10 days|}, <id>",
        "{counterfeit|prop} {notes|bills}, {pass the pen test|undetectable}, {order|dm} <id>",
    )),
    Kind("rebates", "ad", "en", (
        "{flash sale|mega sale|today only}: {up to|extra} {50%|70%} off {sneakers|watches|headphones}, use code <id> at checkout",
        "get {cashback|a coupon|a rebate} on {amazon|every order|your shopping}, {review|buy} and we refund {100%|all} by paypal, dm for list",
        "{new|our} {shop|store} is open! {handmade|cheap} {phone cases|clothes|jewelry} with free shipping, visit <id>.{shop|store|com}",
        "{subscribe to|check out} my {channel|stream|new song}, {link in bio|youtube.com/<id>}, every {like|sub} helps",
        "{order|book} now and save {20|30} percent on {hosting|vpn|streaming accounts}, price from ${2|3|5} a month",
        "{clearance|weekend deal}: buy two {hoodies|perfumes}, get one free, whole stock at <id>.store until sunday",
        "{visit|come to} our {new|online} {store|page}: {trendy|summer} {dresses|bags|shoes} {from|only} ${9|15|29}, {worldwide|free} delivery",
        "{promo|special offer}: {website|logo} design {from|for} ${49|99}, {portfolio|samples} {in dm|at <id>.com}",
        "{please|pls} {watch|listen to} my {new|latest} {video|track} and {leave a like|subscribe}, {it means a lot|thanks}",
        "{grab|get} {netflix|spotify|office} {premium|accounts} for ${1|3} {a month|lifetime}, {warranty|trusted seller}, dm",
        "{private|online} {english|maths|guitar} {lessons|tutor}, first {hour|lesson} free, {message|book} {me|at <id>.com}",
        "{selling|for sale}: {iphone|ps5|macbook} {new|sealed}, ${300|450}, {shipping|pick up}, {pm|dm} {if interested|offers}",
        "{join|follow} our {channel|page} for {daily|the best} {deals|coupons|discounts}: t.me/<id>",
    )),
    Kind("boosting", "ad", "en", (
        "{cheap|fast|safe} {rank|elo|mmr} boosting for {valorant|lol|dota|apex}, from ${5|10} a division, dm me",
        "selling {level 100|stacked|unbanned} {accounts|skins|gold}, {best|low} prices, discord <id>",
        "{aimbot|undetected cheats|mod menu} for {cs2|warzone|fortnite}, {week|lifetime} key ${10|25}, join discord.gg/<id>",
        "{buy|get} {followers|likes|members|views} for your {tiktok|instagram|telegram}, {1000|5000} for ${3|9}, instant start",
        "we carry {raids|trials|placement games} every evening, pros only, price list in {my profile|discord <id>}",
        "{boost|climb} {your account|to diamond} {today|in 3 days}, {trusted|500+ vouches}, {cheap|$<n>}, {add|dm} <id>",
        "{wts|selling} {gold|coins|gems} {cheap|best rate}, {instant|fast} {delivery|trade}, {pm|whisper} {me|<id>}",
        "{free|cheap} {v-bucks|robux|uc} at <id>.{gg|store}, {top up|recharge} {now|and save 30%}",
        "{need|want} {100k|more} {views|subs}? {real|active} {users|accounts}, panel <id>.{com|io}",
    )),
    Kind("raid", "toxic", "en", (
        "everyone {spam|flood|raid} this {trash|garbage|pathetic} {group|server} until {these|the} {losers|idiots|clowns} cry",
        "{shut up|get lost|go away} you {stupid|worthless|disgusting} {clown|piece of trash|idiot}, nobody {likes|wants} you {here|}",
        "{i will|we will|gonna} find {you|where you live} and {break your legs|beat you up|make you pay}, you {rat|coward|bastard}",
        "{kill yourself|go die|do us a favour and die}, {freak|loser|you waste of air}",
        "{you are|ur} {dumb|braindead|retarded} as {hell|a brick}, {your mother|your whole family} should be ashamed",
        "{mods|admins} are {filthy|corrupt} {pigs|dogs}, let's {wreck|burn down} this {place|chat} tonight, post your {filth|insults} now",
        "{what|look at this} {a bunch of|} {retards|idiots|losers}, {all of you|the whole server} {should|can} {rot|burn in hell}",
        "{stfu|shut the fuck up} {bitch|moron|you fat pig}, {nobody asked|no one cares about you}",
        "{fuck|screw} {you|this server|your mom} {and|with} {all your|the} {dumb|stupid} {mods|friends}",
        "{go back to|crawl back into} your {hole|country|cave}, you {filthy|dirty} {animal|parasite|scum}",
        "{you are|ur|such} a {disgusting|pathetic|ugly} {whore|slut|pig|excuse for a human}",
        "{hope|i hope} you {die|get cancer|get hit by a bus}, {asshole|piece of shit|dumbass}",
        "{raid|nuke} {time|starts now}, {flood|fill} the {chat|channel} with {slurs|gore} {till|until} they {close it|cry}",
    )),
    Kind("plain_talk", "ok", "en", (
        "{did you|have you} {see|watch} {casino royale|the new bond film} {yesterday|again}? {great|boring} poker scene",
        "my {bank|landlord} {refused|wants papers for} the loan, {so annoying|i have to wait}",
        "{bitcoin|eth|the market} {dropped|went up} {again|5%} today, {i don't own any|glad i sold|whatever}",
        "{are you|is anyone} looking for a part time job? the {library|cafe} {downstairs|near campus} needs people",
        "{can|could} you {add|invite} my {brother|colleague} to this group? {thanks|he plays too}",
        "{send|share} me the {link|file|address} {please|when you can}, i'll {look|read it} tonight",
        "{free|anyone free} {tomorrow|on saturday|this evening}? we {play|meet} at {eight|7 pm}",
        "{lol|haha} this {game|boss} is killing me, {i died|lost} <n> times",
        "my passport {expires|ran out} in {may|march}, how long does {renewal|a new one} take?",
        "{damn|wow} that was {a sick|an insane} {play|shot}, {well done|gg}",
        "{got|just got} {20%|a discount} on {my new phone|shoes} at the mall, {happy|lucky me}",
        "i sent the money for {lunch|the tickets} {yesterday|already}, please check {when you can|}",
        "please stop {posting|sending} {casino|crypto} {links|ads} here, {read the rules|it is forbidden}",
        "is telegram down {for you|} too? messages {don't arrive|arrive late}",
        "{how do i|can someone help me} {install|configure} {docker|the driver|python} on {ubuntu|windows}?",
        "{who|anybody} {wants|up} for {lunch|coffee|a match} {later|at noon}? {i'm|i am} {free|around} {until|after} {three|five}",
        "{my|the} {telegram|whatsapp|phone} {number|account} {changed|was blocked}, {i'll|will} {tell|send} you {later|tomorrow}",
        "{the|our} {boss|teacher|client} {wants|asked for} the {report|homework|slides} {by|before} {friday|monday}",
        "{i|we} {won|lost} {against|to} {the|that} {blue team|boss} {again|last night}, {good|close} game",
        "{how much|what} did {you|they} pay for {the|that} {laptop|ticket|dress}? {looks|seems} {nice|expensive}",
        "{does|did} anyone {read|follow} the news about {the election|crypto regulation|the casino law}?",
        "{i'm|i am} {so|really} {tired|hungry|bored}, {this|the} {lecture|shift|train} {never ends|is late}",
        "{thanks|thank you} for {the|your} {help|gift|invite}, {see you|talk} {soon|tomorrow}",
        "{free|cheap} {parking|entry} {on|for} {sundays|students}, {at least|i think}",
        "{can't|cannot} {log in|connect} to {the server|my account}, {error|it says} <n>, {any ideas|who knows why}?",
    )),
    # Words that end or go on like an insult. Each held-out pattern has words of its own.
    Kind("words_in_words", "ok", "en", (
        "{switch|pitch|stitch|glitch|hitch|ditch|itch|itchy|Mitch|kitchen|witches}",
        "{my|the|his} {nintendo switch|light switch|left arm|kitchen|microphone} {is|was} {broken|so itchy|full of glitches|on|off} {again|today|since monday|}",
        "{twitch|the twitch stream|a witch|a rich pitch|one more stitch}",
        "{switch|turn|flip} {it|that|the light|the router} {off|on|over} {please|and try again|for a minute|}",
        "{hi|hey|thanks|good morning} {Mitch|Mitchell|Mitch and Ann}, {see you|are you coming} {later|at seven|on the pitch}{?|}",
        "{who|anyone} {watches|streams} on twitch {tonight|this week}?",
        "{we|they|let's} {ditch|pitch|switch|hitch} {the plan|the tent|sides|a ride|teams|the old car} {tomorrow|then|instead|}",
        "{i have|got} {an|a|the|a 6|a bad} itch {to scratch|on my back|again|and a rash|}",
        "{the|our} {football|rugby|sales|cricket} pitch {was|is} {wet|great|at six|too long}",
        "{a|this|another} {glitch|stitch|hitch} in {the|my} {game|sleeve|plan|side|video} {again|, sorry|}",
        "{itch cream|bug glitch|rope hitch|chef's kitchen|cross stitch|witch hat} {for sale at the fair|is nice|, see the picture|}",
        "the {witch|wicked witch} {of the west|in the play} {scared|amused} the kids",
        "{6|5|10|2} {itch|stitches|witches|glitches|switches} {left|in total|}",
        "{stitch|Lilo and Stitch|the witcher|bewitched} {is on|was fun|again}{?|}",
        "{which|what} {switch|witch costume|kitchen} {do you mean|should i buy}?",
        "{my|the|a} {therapist|assistant|class|cocktail|bass guitar|classic} {is|was} {great|in Essex|late|from Sussex} {today|again|}",
        "{Essex|Sussex|Scunthorpe|Middlesex|Dickens|Arsenal|shiitake|cockpit|assassin's creed|raccoon} {is nice|again|tonight|was good|}",
        "the {peacock|analyst|shell|grass} {sat|was} in the {scrapyard|glasshouse}",
    )),
    Kind("groups_named", "ok", "en", (
        "{my|our} {neighbour|teacher|doctor} is {muslim|jewish|christian|hindu|buddhist} and {invited us for dinner|she is very kind}",
        "{women|men|black people|asian people|gay people|disabled people|immigrants} {deserve|have} the same rights {as everyone|at work}",
        "the {chinese|mexican|turkish|nigerian|indian|polish} {restaurant|bakery|shop} {opens at ten|is really good|moved to main street}",
        "{he|she} wrote a {book|thesis|paper} about {black|jewish|gay|women's|muslim|migrant} {history|culture|artists}",
        "{a|the} {trans|gay|lesbian|deaf|blind} {friend|colleague} of mine {got married|started a new job|plays in our band}",
        "{many|some} {immigrants|refugees|muslims|jews|africans|women} {live|work|study} in {our town|this district|the city}",
        "as a {woman|black man|gay man|muslim|jew|disabled person} i {enjoyed|liked} this {film|course}",
        "{happy|have a nice} {eid|hanukkah|diwali|pride|lunar new year} to {all of you|everyone who celebrates}",
        "the {women's|men's|deaf|korean|brazilian} team {won|lost} {2:1|the final} {last night|on sunday}",
        "{some|two} of my {best friends|cousins} are {gay|muslim|black|disabled|immigrants}, {we|they} {travel|work} together",
        "{the|our} {museum|festival} shows {jewish|african|indigenous|arab} {art|music|food} {this week|until may}",
        "{more|few} {women|black people|deaf people} {work|study} in {tech|medicine|our lab} {now|than before}",
        "{is|was} the {muslim|jewish|chinese|gay} {centre|bookshop|cafe} {open|busy} {today|on sunday}?",
        "{she|he} {converted to|was raised in} {islam|judaism|buddhism} and {teaches|writes about} it",
    )),
    Kind("contact_bait", "spam", "zh", (
        "{加|+|➕}{我|}{微信|薇信|威信|V信|vx|wx|卫星}{：|:| }<id>{，|,| }{资源|福利|视频|好货}{多多|免费看|你懂的}",
        "{单身|附近|同城}{小姐姐|妹妹|学妹}{求|找}{交友|包养|男友}，{扣扣|QQ|企鹅|q}<n><n>，{可约|上门|非诚勿扰}",
        "{想看|要看}{的|更多|完整版}{加|私}{我|}{电报|飞机|tg|TG}{@|：}<id>",
        "{进群|入群|群里}{看|领}{片|福利|资源}，{点|戳}{头像|链接} http://<id>.{top|xyz|cc}",
        "{寂寞|无聊}{想|求}{人陪|聊天|视频}，{裸聊|私密}{加|+}{v|V|薇}<id>",
        "{本人|姐姐}{照片|私照}在{空间|相册}，{扫码|搜号}<id>{就能看|带你飞}，{懂的来|手慢无}",
        "{新人|刚来}，{想|求}{认识|交}{朋友|哥哥}，{加我|私我}{QQ|微信|tg}<id>，{发照片|陪聊}",
        "{同城|附近}{约|交友}{平台|群}，{真实|高质量}{妹子|资源}，{进|加}<id>",
        "{免费|白嫖}{看|领}{直播|视频|教程}，{加|扫}{V|微|薇}：<id>，{晚了|手慢}就没了",
        "{有|要}{资源|网盘|种子}的{加|滴}{我|v}<id>，{打包|低价}{出|送}",
        "{主播|福利姬}{私密|定制}{照片|视频}，{飞机|电报}{搜|加}@<id>",
        "{哥哥|老板}{在吗|你好}，{看|瞧}{我|人家}{主页|空间}{，|有惊喜，}{联系方式|加我}<id>",
        "{想|要}{聊天|视频}{的|}{加|来}{我|姐姐}{微亻言|威❤|wei信}<id>",
    )),
    Kind("part_time_job", "spam", "zh", (
        "{招|急招|诚招}{兼职|打字员|刷单员|点赞员}，{日结|一单一结}，{每天|日赚}{100-300|200|500}{元|}，{加|联系}{微信|vx|QQ}<id>",
        "{在家|手机}就能做，{不用押金|无需经验}，{一天|日入}{300|500|八百}{，名额有限|}，{有意|想做}{加|私聊}{v|薇|扣}<id>",
        "{淘宝|抖音|拼多多}{刷单|点赞|做任务}，{佣金|工资}{秒结|当天到账}，{宝妈|学生}{均可|都能做}，{联系|加}<id>",
        "{还在|你还在}为{没钱|工资低}发愁吗？{跟着我|带你}{赚钱|做副业}，{月入过万|一天五百}，{徽信|V}<id>",
        "公司{扩招|招人}{居家客服|线上助理}，{时薪|底薪}<n>0{元|}，{不收费|无门槛}，{填|发}{银行卡|身份证}{即可|}入职，{问|找}<id>",
        "{高薪|诚聘}{手工|抄写|配音}{兼职|员}，{单价|每份}{30|50|80}{元|}，{时间自由|不坐班}，{微信|扣}<id>",
        "{想|要}{赚|挣}{零花钱|外快}的{看过来|来}，{一小时|半天}{80|150}，{加|找}<id>{，人满停招|}",
        "{网络|线上}{兼职|副业}{项目|平台}，{零投入|0门槛}，{提现|到账}{快|秒到}，{进群|私聊}{了解|拿资料}<id>",
        "{快递|外卖|电商}{录单|好评}{员|}，{一单|每单}{5|8|10}元，{多劳多得|上不封顶}，{q|V}<id>",
        "{学生党|宝妈|上班族}{必看|福利}，{手机|在家}{日入|一天赚}{100|300}+，{扫码|加}<id>",
    )),
    Kind("gambling", "spam", "zh", (
        "{澳门|新葡京|皇冠|线上}{赌场|娱乐城|真人荷官}{开业|上线}，{首存|注册}{送|返}{88|188|100%}，网址 <id>.{com|vip|cc}",
        "{六合彩|时时彩|北京赛车|PK10}{计划|内幕|稳赚}{群|}，{导师|老师}{带|免费带}，{加|进}{群|q群}<n><n>",
        "{百家乐|棋牌|捕鱼|老虎机}{秒提现|大额无忧}，{充值|存款}{送彩金|返水}，{点|戳} http://<id>.{top|bet}",
        "{足球|竞彩}{单子|推荐}{连红|命中}，{跟单|上车}{加|私}<id>，{不中退款|包赢}",
        "{平台|app}{下载|注册}就{送|领}{38|58}{彩金|体验金}，{打码|流水}一倍{可提|就提}，<id>.app",
        "{体育|电竞|真人}{投注|下注}，{首存|首充}{送|返}{50%|88元}，{提款|出款}{快|秒到}，<id>.{com|vip}",
        "{彩票|快三|赛车}{群|计划群}，{跟着|带你}{回血|上岸|盈利}，{进|加}{裙|群}<n><n>",
        "{注册|下载}<id>{app|}，{免费|即}{领|送}{18|58|88}{元|彩金}，{爆奖|中奖}{不断|率高}",
        "{麻将|斗地主|牛牛|炸金花}{开房|代理}{招|诚招}{代理|合伙}，{返点|分成}{高|60%}，{微|v}<id>",
        "{世界杯|欧冠|NBA}{开盘|滚球}，{高赔率|信誉老台}，{上|点}<id>.{bet|cc}",
    )),
    Kind("crypto", "spam", "zh", (
        "{U|USDT|泰达币}{搬砖|套利|理财}，{日收益|每天}{3%|5%|10%}，{稳赚不赔|保本}，{加|联系}{电报|tg|飞机}<id>",
        "{比特币|以太坊|新币}{马上|即将}{暴涨|百倍}，{内部|老师}{带单|喊单}，{进群|上车}{联系|加}<id>",
        "{高价|大量}{收|出}{U|usdt}，{秒到账|不冻卡}，{飞机|TG}@<id>",
        "{股票|牛股|黑马}{推荐|内幕}，{老师|专家}{免费|}{带|荐股}，{翻倍|稳赚}，{加|扫}{微信|群}<id>",
        "{空投|糖果}{最后一天|限时}，{连接|导入}钱包{助记词|}{领取|即领}<n>{个|枚}币：<id>.io",
        "{币圈|合约}{老师|大佬}{带单|策略}，{日赚|月赚}{几千|翻倍}，{免费|限时}{进群|拉你}<id>",
        "{买|卖}{u|USDT|币}{的|}{找|联系}我，{价格|汇率}{好|优}，{线下|现金}{交易|可}，{tg|飞机}<id>",
        "{挖矿|矿机|质押}{分红|收益}，{每天|每日}{1%|2%|5%}{返|}，{邀请|拉人}{有奖|再返}，<id>.io",
        "{原始股|虚拟币|外汇}{投资|理财}，{稳|保}{赚|本}{不赔|高息}，{经理|客服}{微信|v}<id>",
    )),
    Kind("loans", "spam", "zh", (
        "{无抵押|凭身份证|黑户也能}{贷款|借款|下款}，{额度|最高}{5万|10万|50万}，{当天|秒}{放款|到账}，{电话|微信}<id>",
        "{急用钱|缺钱}{找我|加我}，{不看征信|不上征信}，{10分钟|马上}{到账|下款}，{v|微信}<id>",
        "{信用卡|花呗|白条}{套现|提额|代还}，{手续费低|秒到}，{联系|加}<id>",
        "{代开|代办}{发票|增值税票}，{点数优惠|可验真}，{电话|联系}<n><n>{，王经理|，李小姐|}",
        "{有公积金|有车|有房}就能{贷|借}，{利息|月息}{低至|仅}{三厘|0.3}，{先息后本|随借随还}，{咨询|找}{张|刘}经理 <n><n>",
        "{网贷|信用卡}{逾期|还不上}？{我们|专业}{协商|停催|减免}，{加|联系}{微信|v}<id>",
        "{全国|本地}{可做|放款}，{身份证|手机号}{就能|即可}{借|下}{3千|2万|20万}，{黑白户|征信花}{都可|能做}，<n><n>",
        "{公司|个体}{开票|代账}，{专票|普票|餐饮票}，{税点|价格}低，{联系|微信}<id>",
        "{大额|低息}{信贷|企业贷}，{当天|三天}{批|放}，{不成功不收费|先放款后收费}，{电|v}<n><n>",
    )),
    Kind("fake_documents", "spam", "zh", (
        "{办|代办|制作}{各类|}{证件|文凭|毕业证|驾照|学历}，{可查|包上网|真实}，{加|联系}{微信|QQ}<id>",
        "{收|高价收|出租}{银行卡|四件套|对公账户|微信号}，{日结|一天一千}，{飞机|电报}<id>",
        "{身份证|房产证|离婚证}{定做|仿真}，{一比一|过验}，{v|薇}<id>",
        "{公章|印章|病假条}{刻|代开}，{当天取|送货上门}，{价格优|三十起}，{扣|q}<n><n>",
        "{毕业证|学位证|资格证}{办理|定制}，{学信网|官网}{可查|同步}，{v|QQ}<id>",
        "{收|长期收}{卡|u盾|手机卡|实名号}，{价高|一套两千}，{安全|当面}{交易|付}，{tg|飞机}@<id>",
        "{驾照|驾驶证}{包过|免考}，{不用|无需}{去|学}，{十天|半月}{拿证|下证}，{咨询|联系}<id>",
        "{健康证|在职证明|流水|社保}{代办|可做}，{真实|可查}，{加|扣}<id>",
    )),
    Kind("rebates", "ad", "zh", (
        "{淘宝|京东|拼多多}{内部|隐藏}{优惠券|红包}，{先领券|进群}{再下单|天天省}，{复制|打开}<id>",
        "【{双11|618|年货节|周年庆}】{全场|女装|家电}{5折起|满300减50|买一送一}，{速来|戳链接} http://<id>.{cn|com}",
        "{新店|本店}{开业|促销}，{奶茶|火锅|烤肉}{第二杯半价|八折|充200送100}，地址{人民路|中山路}<n>号",
        "{返利|返现}{群|机器人}，{购物|点外卖}{返|省}{10|20|30}%，{扫码|加群}{领取|体验}",
        "{代购|微商|工厂直销}{面膜|包包|鞋子|手表}，{正品|高仿|一件代发}，{看图|价格}{私聊|加v}<id>",
        "{楼盘|公寓|铺面}{开盘|特惠}，{首付|均价}{8万|9800}{起|}，{地铁口|学区}，热线<n><n>",
        "{英语|钢琴|考研|舞蹈}{班|课程}{招生|免费试听}，{报名|现在报}{立减|送}{200|教材}，{咨询|电话}<n><n>",
        "{洗车|健身|美甲}{年卡|套餐}{只要|仅}{99|199}{元|}，{仅限三天|先到先得}，{到店|私信}{预约|报我名字}",
        "{亲|各位|家人们}，{本店|我家}{新款|水果|零食|童装}{上架|到货}，{包邮|买二送一}，{喜欢的|需要}{私|拍}",
        "{转发|集赞}{20|38}个{免费|送}{蛋糕|体验课|小礼品}，{地址|门店}：{解放路|万达}<n>号",
        "{关注|点}{我|主页|公众号}，{每天|天天}{更新|发}{好物|优惠|羊毛}",
        "{出租|转租|出售}{两室|单间|门面}，{精装|近地铁}，{月租|价格}<n>，{电话|联系}<n><n>",
        "{装修|搬家|家政|开锁}{服务|公司}，{价格|收费}{透明|实惠}，{随叫随到|免费报价}，{电话|微信}<n><n>",
        "{股东|会员}{日|节}，{充|存}{500|1000}{送|得}{200|888}，{仅限|只在}{今天|本周}",
    )),
    Kind("boosting", "ad", "zh", (
        "{王者|吃鸡|原神|英雄联盟}{代练|代打|上分}，{价格|价}{便宜|美丽}，{秒接|安全}，{加|联系}{q|微信}<id>",
        "{出|卖|低价出}{号|账号|皮肤|金币}，{满级|全皮肤}，{要的|有意}{私|滴滴}{我|}",
        "{刷|买}{粉丝|点赞|播放量|钻}，{1元|2块}{100个|一千}，{自助|下单} <id>.{cn|com}",
        "{外挂|辅助|透视}{稳定|不封号}，{天卡|周卡}{10|20}{元|}，{群|q群}<n><n>",
        "{招|收}{主播|公会|陪玩}，{时薪|流水}{高|九成}，{女声|声音好听}{优先|来}，{q|扣}<n><n>",
        "{接|专业}{代练|陪玩|上分}，{王者|巅峰|星耀}{都接|包上}，{一星|每局}{3|5|8}{元|块}，{加|私}<id>",
        "{收|出}{游戏币|点券|cdk|激活码}，{便宜|秒发}，{要|来}{私聊|扣}<id>",
        "{卖|售}{脚本|挂|科技}，{稳|不封}，{试用|月卡}<n>，{进|加}群<n><n>",
        "{涨粉|点赞|评论}{业务|服务}，{抖音|快手|小红书}{都有|可做}，{下单|价目}{看|加}<id>",
        "{新服|传奇|私服}{今晚|明天}{开|首区}，{上线|进服}{送|领}{vip|元宝|神装}，<id>.com",
    )),
    Kind("raid", "toxic", "zh", (
        "{你|你们}{这个|就是}{傻逼|煞笔|沙比|脑残|废物|垃圾}{，|}{滚|滚出去|去死}{吧|}",
        "{兄弟们|大家}{爆|炸|刷}{这个|了这}{破|垃圾}群，{群主|管理}{是个|就是}{傻逼|狗|智障}",
        "{操你妈|草泥马|cnm|尼玛死了|你妈死了}{，|}{你算什么东西|闭嘴|给老子滚}",
        "{再说|再逼逼}{老子|我}{打死你|弄死你|砍死你}，{贱人|狗东西|杂种}",
        "{人渣|贱货|婊子|臭傻逼}，{不要脸|恶心死了|怎么不去死}",
        "{脑子有病|脑子进水}的{东西|玩意}，{全家|祖宗}都{替你丢人|该死}，{滚远点|别在这恶心人}",
        "{一群|都是}{傻逼|脑残|废物|智障}，{这群|你们}{活着|也}{浪费空气|配说话}",
        "{你他妈|你tm|尼玛}{是不是|}{有病|找死|欠揍}{啊|吧|？}",
        "{滚|爬|死}{远点|开|一边去}，{丑逼|穷逼|死肥猪|臭婊子}",
        "{sb|SB|nc|煞笔}{东西|玩意儿|群主}，{全家|祖宗}{死光|不得好死}",
        "{骂|喷}{死|爆}{他|这群}{狗|畜生}，{刷|炸}到{解散|退群}{为止|}",
        "{畜生|禽兽|人渣}{不如|}的{东西|玩意}，{早点|赶紧}{死|投胎}",
    )),
    Kind("plain_talk", "ok", "zh", (
        "{今天|昨天|周末}{加班|上课|开会}{好累|到十点}，{先睡了|晚安|明天再说}",
        "{有人|谁}{打|玩}{王者|吃鸡|原神}吗？{三缺一|差一个|晚上八点}",
        "{大家|你们}{吃饭|吃|点外卖}了{吗|没}，{我|今天}{想吃|吃的}{火锅|面条|饺子}",
        "{银行|房东}{说|要}{贷款|押金}{还要等|没批下来}，{烦死了|再等等吧}",
        "{我|他}{在|去}{奶茶店|图书馆|超市}{做|找了个}兼职，{挺|还}{累的|不错}",
        "{麻烦|请}{把|发下}{文件|作业|地址|链接}{发我|给我}{一下|}{，谢谢|}",
        "{微信|手机}{坏了|没电了|登不上}，{晚点|回头}{再|}{联系|说}",
        "{群里|这里}{别|不要|禁止}{发广告|刷屏|发链接}{，谢谢|，看群公告|}",
        "{哈哈|笑死|草}，{这|你这}{也太|真}{搞笑|离谱|厉害}了",
        "{比特币|股票|基金}{又|今天}{跌|涨}了，{还好没买|看看就行|无所谓}",
        "{双十一|618}{买了|抢到}{个|一台}{手机|洗衣机}，{便宜了|省了}<n>块",
        "{澳门|香港}{旅游|玩}{好玩吗|攻略|怎么样}，{打算|想}{五一|国庆}去",
        "{驾照|毕业证|身份证}{什么时候|怎么}{拿|补办}{啊|？}",
        "{好的|收到|嗯嗯|可以}{，|}{明天|下午|等下}{见|过去|聊}",
        "{这个|那个}{服务器|插件|模组|地图}{怎么|如何}{装|下载|进}{啊|？}",
        "{刚|才}{下班|到家|起床}，{好|真}{饿|累|困}{啊|}",
        "{这|那}{题|道题|章}{怎么|咋}{做|写}{啊|}，{有没有|谁有}{答案|思路}",
        "{明天|周六}{几点|在哪}{集合|见面|开会}{？|啊}",
        "{谢谢|多谢}{大家|群主|老师}，{已经|刚}{解决|弄好}了",
        "{快递|外卖}{到|还没到}{了|}，{我|帮我}{去|下楼}拿{一下|}",
        "{我|俺}{QQ|微信}{被盗|换号}了，{别|不要}{信|理}{那个|骗子}",
        "{昨晚|刚才}{那局|球赛}{太|真}{可惜|精彩|刺激}了",
        "{求|谁有}{推荐|好看}的{电影|小说|番|歌}{？|吗}",
        "{价格|学费|房租}{有点|太}{贵|高}，{再|还要}{看看|考虑}{吧|}",
        "{警察|新闻}{说|提醒}{兼职刷单|网络赌博|贷款}{都|多}是{诈骗|骗人的}，{大家|别}{小心|上当}",
    )),
    Kind("groups_named", "ok", "zh", (
        "{女性|男性|黑人|残疾人|同性恋者|少数民族|农民工}{也|}{应该|有权}{享有|得到}{平等|同样}的{权利|尊重|机会}",
        "{我|他}的{邻居|老师|同事}是{回族|藏族|维吾尔族|黑人|东北人|河南人|上海人|穆斯林}，{人很好|做饭很好吃|帮过我很多}",
        "{东北|河南|广东|新疆|四川}人{过年|平时}{都|一般}{吃|喜欢}{饺子|面食|早茶|羊肉}{吗|？|，挺有意思}",
        "{这本书|这部电影|展览}讲的是{犹太人|黑人|女性|移民|聋人}的{历史|生活|故事}，{推荐|值得看}",
        "{女司机|女博士|女程序员|男护士}{其实|}{越来越多|很常见|技术很好}",
        "{公司|学校|小区}{来了|有}{几位|一位}{非洲|印度|日本|韩国|美国}{同事|留学生|邻居}，{很友好|中文很好}",
        "{同性恋|跨性别}{朋友|同学}{结婚|工作}了，{祝福|为他高兴}",
        "{我们|班里}{有|来了}{个|两个}{新疆|西藏|内蒙古|广西}{同学|室友}，{唱歌|篮球}{很|特别}{好听|厉害}",
        "{她|他}{研究|写过}{女性|性别|种族|移民}{问题|历史}，{讲|说}得{很好|挺客观}",
        "{黑人|白人|亚裔}{演员|歌手|运动员}{获奖|夺冠}了，{祝贺|厉害}",
        "{上海|北京|广东}{阿姨|大爷|姑娘}{很|真}{热情|能聊}，{教|帮}我{做菜|问路}",
    )),
)  # fmt: skip


def expand(pattern: str, rng: random.Random) -> str:
    """One message from a pattern."""
    while CHOICE.search(pattern):
        pattern = CHOICE.sub(lambda match: rng.choice(match.group(1).split("|")), pattern)
    pattern = re.sub("<id>", lambda _: contact_name(rng), pattern)
    return re.sub("<n>", lambda _: str(rng.randrange(2, 9_999)), pattern).strip()


def contact_name(rng: random.Random) -> str:
    """A made-up account name."""
    return "".join(rng.choice(CONTACT_ALPHABET) for _ in range(rng.randrange(5, 11)))


def is_held_out(index: int) -> bool:
    """Whether a pattern, by its place in its kind, is measured and never trained on."""
    return index % HELD_OUT_EVERY == HELD_OUT_EVERY - 1


def make_rows(rng: random.Random, per_pattern: int, *, held_out: bool) -> list[Row]:
    """Messages of every kind, from the patterns to train on or from those to measure."""
    rows = []
    for kind in KINDS:
        chosen = [p for i, p in enumerate(kind.patterns) if is_held_out(i) == held_out]
        for pattern in chosen:
            texts = dict.fromkeys(expand(pattern, rng) for _ in range(per_pattern))
            rows += [Row(t, kind.label, kind.lang, f"{SOURCE}/{kind.name}", "own") for t in texts]
    return rows
